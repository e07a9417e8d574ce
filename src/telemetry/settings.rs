//! `Settings`: the section `log:`.

/// How the gateway writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// For people or for programs.
    pub format: Format,
    /// The least that is written to stderr.
    pub level: Level,
    /// One line a request on stdout.
    pub access: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { format: Format::Text, level: Level::Info, access: true }
    }
}

/// `log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One readable line an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// `log.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Failures of the gateway itself.
    Error,
    /// What an operator should look at.
    Warn,
    /// Starts, stops, reloads.
    Info,
    /// Every step of a request.
    Debug,
    /// Everything.
    Trace,
}
