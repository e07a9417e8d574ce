//! Descriptions of APIs: any bytes are a document that is imported, in whole or in part, or one that is refused. What is
//! written of an import is a configuration.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use restap_gateway::config::Config;
use restap_gateway::openapi::write::{Origin, file};
use restap_gateway::openapi::{self, Bundle, Location, Options};
use restap_gateway::yaml::Colour;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut bundle) = Bundle::new(Location::File("api.yaml".into()), bytes) else { return };
    while let Some(wanted) = bundle.wanted() {
        bundle.give(wanted.location, Err("nothing is fetched".to_owned()));
    }
    let options = Options { base_url: Some("http://127.0.0.1:1".to_owned()), ..Options::default() };
    let Ok(imported) = openapi::import(&bundle, &options) else { return };
    let text = file(&imported, &Origin { document: "api.yaml", command: "import api.yaml" });
    let unset = |_: &str| None;
    if let Err(problems) = Config::from_text("gateway.yaml", &text, Path::new("/nonexistent"), &unset) {
        let problems: Vec<String> = problems.iter().map(|problem| problem.render(Colour::Never)).collect();
        panic!("{}\nof\n{text}", problems.join("\n"));
    }
});
