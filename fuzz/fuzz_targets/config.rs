//! gateway.yaml: any text is a configuration or a list of problems that shows no credential.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use restap_gateway::config::Config;
use restap_gateway::yaml::Colour;

fuzz_target!(|text: &str| {
    let environment = |name: &str| (name == "KEY").then(|| "k-0123456789abcdef-never-shown".to_owned());
    if let Err(problems) = Config::from_text("gateway.yaml", text, Path::new("/nonexistent"), &environment) {
        for problem in problems {
            assert!(!problem.render(Colour::Never).contains("k-0123456789abcdef-never-shown"));
        }
    }
});
