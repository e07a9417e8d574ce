//! The program `restap-gateway`.

use std::process::ExitCode;

fn main() -> ExitCode {
    restap_gateway::cli::run()
}
