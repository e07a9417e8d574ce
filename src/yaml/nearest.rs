//! The known name that a misspelt one is nearest to.

/// Names that are compared. The first ones of a longer list do.
const CANDIDATES_MAX: usize = 1_000;

/// The candidate that differs from `name` by no more than a third of its characters, if there is one.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let length = name.chars().count();
    let allowed = if length < 2 { 0 } else { (length / 3).clamp(1, 4) };
    let near = candidates.into_iter().take(CANDIDATES_MAX).filter_map(|candidate| {
        if candidate.chars().count().abs_diff(length) > allowed {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
        (distance <= allowed).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        for (slip, meant) in
            [("wether", "weather"), ("usptream", "upstream"), ("Name", "name"), ("descripton", "description")]
        {
            assert_eq!(nearest(slip, ["name", "weather", "upstream", "description"]), Some(meant), "{slip}");
        }
    }

    #[test]
    fn another_word_finds_nothing() {
        for word in ["", "colour", "x", "weatherstation"] {
            assert_eq!(nearest(word, ["name", "weather", "upstream"]), None, "{word}");
        }
    }
}
