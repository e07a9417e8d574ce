//! How unguessable two minted session ids can be at best (RESTAP, "Identifier format and entropy").

/// What the text demands, in bits.
const BITS_MIN: f64 = 122.0;

/// Characters that two random ids may share at an end by chance: one pair in 65,536 even where they are hexadecimal.
const CHANCE: usize = 4;

/// Why ids like these two can't hold 122 bits; `None` where they may. Both were minted for different callers.
pub(super) fn too_little(one: &str, other: &str) -> Option<String> {
    if one == other {
        return Some("two callers without a session were given the same session_id".to_owned());
    }
    let front = shared(one.chars().zip(other.chars()));
    let back = shared(one.chars().rev().zip(other.chars().rev()));
    // What is the same in both is no secret, chance apart.
    let length = one.chars().count();
    let varying: Vec<char> = one.chars().skip(front).take(length.saturating_sub(front + back)).collect();
    let by_chance = front.min(CHANCE) + back.min(CHANCE);
    let bits = bits_of(&varying, by_chance);
    (bits < BITS_MIN).then(|| match length - varying.len() {
        lost @ 0..=CHANCE => format!("{} characters of this kind hold {bits:.0} bits at most", varying.len() + lost),
        lost => format!(
            "{lost} of {length} characters are the same in two of them, and the others hold about {bits:.0} bits at most"
        ),
    })
}

/// How many characters an end has in common.
fn shared(pairs: impl Iterator<Item = (char, char)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

/// The bits that these characters and so many more hold at most, by the smallest alphabet that they are all of. In
/// base64url `-` and `_` are digits, in the others they separate.
fn bits_of(characters: &[char], more: usize) -> f64 {
    let of_text = || characters.iter().filter(|it| it.is_ascii_alphanumeric());
    let all = |of: fn(&char) -> bool| of_text().all(of);
    let each = if all(char::is_ascii_digit) {
        10_f64.log2()
    } else if all(char::is_ascii_hexdigit) {
        4.0
    } else if all(|it| !it.is_ascii_uppercase()) || all(|it| !it.is_ascii_lowercase()) {
        36_f64.log2()
    } else {
        return (characters.len() + more) as f64 * 6.0;
    };
    (of_text().count() + more) as f64 * each
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restap::SessionId;

    #[test]
    fn random_ids_of_the_recommended_forms_are_enough() {
        for _ in 0..2000 {
            let (one, other) = (SessionId::mint(), SessionId::mint());
            assert_eq!(too_little(one.expose(), other.expose()), None);
            let prefixed = [one, other].map(|id| format!("sess_{}", id.expose()));
            assert_eq!(too_little(&prefixed[0], &prefixed[1]), None);
        }
        assert_eq!(too_little("9Yx2pK7m-Qd0Rb3nVt1aZw", "Qm4_zT8uXe-Lr6sWc0h_gA"), None);
    }

    #[test]
    fn counters_short_ids_and_times_are_not() {
        for (one, other) in [
            ("session-00000000000000001", "session-00000000000000002"),
            ("0123456789abcdef", "fedcba9876543210"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            // UUIDv7 of one moment: 48 bits are the time.
            ("0198f3a2-7c11-7b3e-9d21-5a7e3c9b1f42", "0198f3a2-7c12-7e90-8a4b-c1d2e3f40516"),
            ("12345678901234567890", "98765432109876543210"),
        ] {
            assert!(too_little(one, other).is_some(), "{one} {other}");
        }
    }
}
