//! Addresses that are part of the public internet. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not public (IANA special-purpose registries), as base and length of the prefix; the addresses at which
/// clouds answer with credentials are among them, or named in [`METADATA`].
const PRIVATE: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Public addresses at which machines of a cloud answer: Azure.
const METADATA: &[Ipv4Addr] = &[Ipv4Addr::new(168, 63, 129, 16)];

/// Networks within 2000::/3 that are not public: Teredo and others of 2001::/23, documentation, 6to4, documentation.
const PRIVATE_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Reports whether an address is part of the public internet. IPv4 within IPv6 (mapped, NAT64, 6to4, Teredo) is not: such an
/// address reaches an IPv4 host that was not looked at.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within = |(base, length): &(Ipv4Addr, u32)| {
        let mask = u32::MAX << (u32::BITS - length);
        address.to_bits() & mask == base.to_bits()
    };
    !PRIVATE.iter().any(within) && !METADATA.contains(&address)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(base, length): &(Ipv6Addr, u32)| {
        let mask = u128::MAX << (u128::BITS - length);
        address.to_bits() & mask == base.to_bits()
    };
    within(&(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3)) && !PRIVATE_V6.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "4000::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().expect(address)), "{address}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2003::1",
        ];
        for address in public {
            assert!(is_public(address.parse().expect(address)), "{address}");
        }
    }
}
