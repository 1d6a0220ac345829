//! Logs: one line per event, on the standard error output.

use tracing::level_filters::LevelFilter;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// As it is written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Which lines are written: each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What an operator should look at.
    Warn,
    /// Also each request.
    Info,
    /// Also what libraries say.
    Debug,
}

impl LogLevel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// As it is written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Writes logs to the standard error output from now on. Does nothing if the process has a log already.
pub fn log_to_stderr(format: LogFormat, level: LogLevel) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // A line that cannot be written is lost. Told on the same output, as is usual, it would end the request with a
    // panic.
    let lines = tracing_subscriber::fmt().with_max_level(filter).with_writer(std::io::stderr).with_ansi(false);
    let lines = lines.log_internal_errors(false);
    // An error says that there is a log already.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
