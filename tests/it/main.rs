//! The one integration binary: one module per capability.
mod providers;
mod tools;
mod mime;
