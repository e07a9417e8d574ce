//! The program `restap-gateway`.

fn main() {}
