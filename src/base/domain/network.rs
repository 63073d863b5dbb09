//! Ranges of IP addresses in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin with the same bits: `192.0.2.0/24`, `2001:db8::/32`, or one address by
/// itself.
///
/// Invariant: the prefix is no longer than the address, which has no bits set behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Error with the text that is not a network.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is neither an IP address nor a network")]
pub struct BadNetwork(pub String);

/// Returns the network that counts as one peer: an IPv4 address, or an IPv6 /64, which belongs to one customer.
pub fn peer_network(address: IpAddr) -> IpAddr {
    network_of(address, 32, 64)
}

/// Returns the first address of the network of so many bits, at least one, in which an address stands.
pub fn network_of(address: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & (u32::MAX << (32 - v4_bits))).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - v6_bits))).into(),
    }
}

impl Network {
    pub fn parse(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.chars().filter(|c| !c.is_control()).take(120).collect());
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address = address.parse::<IpAddr>().map_err(|_| bad())?.to_canonical();
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => bits_max,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| bad())?
            }
            Some(_) => return Err(bad()),
        };
        let network = Self {
            address,
            prefix_bits,
        };
        let is_clean = prefix_bits <= bits_max && network.masked(bits(address)) == bits(address);
        if is_clean { Ok(network) } else { Err(bad()) }
    }

    /// Reports whether the network contains the address; an IPv4-mapped IPv6 address counts as its
    /// IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && self.masked(bits(address)) == bits(self.address)
    }

    /// The bits of the prefix; the address stands at the upper end of the 128.
    fn masked(&self, bits: u128) -> u128 {
        bits & u128::MAX
            .checked_shl(128 - u32::from(self.prefix_bits))
            .unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

impl serde::Serialize for Network {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_only_the_addresses_that_begin_as_it_does() {
        let holds = |network: &str, address: &str| {
            Network::parse(network).map(|n| n.contains(address.parse().unwrap_or([0; 4].into())))
        };
        for (network, address) in [
            ("192.0.2.0/24", "192.0.2.255"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7", "::ffff:192.0.2.7"),
            ("0.0.0.0/0", "203.0.113.9"),
            ("2001:db8::/32", "2001:db8:1::9"),
            ("::1", "::1"),
        ] {
            assert_eq!(holds(network, address), Ok(true), "{network} {address}");
        }
        for (network, address) in [
            ("192.0.2.0/24", "192.0.3.0"),
            ("192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "2001:db8::1"),
            ("::/0", "192.0.2.1"),
            ("2001:db8::/32", "2001:db9::"),
        ] {
            assert_eq!(holds(network, address), Ok(false), "{network} {address}");
        }
        for bad in [
            "",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "::/129",
            "192.0.2.0/+8",
            "192.0.2.0/",
            "a.test",
            "1.2.3",
        ] {
            assert!(Network::parse(bad).is_err(), "{bad:?}");
        }
    }
}
