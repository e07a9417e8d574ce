//! Who is calling, and what they may do: verified names, groups made of them, rights, and rates.
//!
//! A request brings credentials, a credential that is verified is a [`Principal`], and [`Access`] is what an operator says
//! of principals. Nothing here answers a request: the gateway asks, and tells the caller.

pub mod access;
pub mod api_key;
pub mod jwks;
pub mod jwt;
pub mod key_sets;
pub mod limit;
pub mod pattern;
pub mod principal;
pub mod rate;
pub mod right;
pub mod settings;

pub use access::{Access, Groups, Standing, Verdict};
pub use api_key::ApiKeys;
pub use jwks::Jwks;
pub use key_sets::KeySets;
pub use limit::{Buckets, Count, Spent};
pub use pattern::Pattern;
pub use principal::{Caller, Principal};
pub use rate::Rate;
pub use right::{Grant, Right};
pub use settings::Settings;
