//! Mail in and mail out. Ingresses hand letters to the one door; outbound works off committed deliveries.

pub mod door;
pub mod identity;
pub mod ingress;
pub mod judge;
pub mod intake;
pub mod notices;
pub mod outbound;
mod vouching;
