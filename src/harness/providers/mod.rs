//! Adapters to language models: one file each, under the contract of `contract.rs`.

pub mod contract;
