//! Paths and their patterns, one line each: a path in its normal form stays as it is, and no pattern makes anything panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::capability::{NormalPath, Pattern};

fuzz_target!(|text: &str| {
    let (path, pattern) = text.split_once('\n').unwrap_or((text, ""));
    if let Ok(normal) = path.parse::<NormalPath>() {
        let again: NormalPath = normal.as_str().parse().expect("a normal path is a path");
        assert_eq!(again.as_str(), normal.as_str());
        assert!(!normal.as_str().split('/').any(|segment| matches!(segment, "." | "..")));
    }
    let _ = pattern.parse::<Pattern>();
});
