//! tmp
use crate::restap::{Capability, catalog::Card};
/// tmp
#[derive(Debug)]
pub struct Guide;
impl Guide {
    /// tmp
    pub fn new(_: &Card, _: &[Capability]) -> Self {
        Self
    }
    /// tmp
    pub fn answer(&self, _: &str) -> String {
        "guide".into()
    }
}
