//! `Accept`: any lines of it are a decision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::restap::Delivery;

fuzz_target!(|lines: &str| {
    for streaming in [true, false] {
        let _ = Delivery::negotiate(lines.lines(), streaming);
    }
});
