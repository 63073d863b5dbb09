//! Mail in and mail out. Ingresses pass letters to the intake; outbound sends committed deliveries.

pub mod intake_contract;
pub mod identity;
pub mod ingress;
pub mod judge;
pub mod intake;
pub mod notices;
pub mod outbound;
mod authentication;
