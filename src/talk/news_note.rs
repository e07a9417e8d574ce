//! tmp
use crate::restap::NewsItem;
/// tmp
pub fn note(_: &[NewsItem], _: usize, _: usize) -> Option<String> {
    None
}
