//! How does a failed command end?

use std::process::ExitCode;

use glidepath_bench::LiveError;
use glidepath_lab::experiment::ExperimentError;
use glidepath_lab::library::LibraryError;
use glidepath_lab::pictures::PicturesError;
use glidepath_lab::report::ReportError;
use glidepath_lab::runner::RunError;
use glidepath_lab::schema::SchemaError;
use glidepath_picture::PictureError;
use glidepath_run::JournalError;
use glidepath_stores::OpenError;

use crate::output::complain;

/// Exit codes of `catalog` and `txn`, in addition to those of all commands.
pub(crate) mod code {
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const EXISTS: u8 = 4;
    pub(crate) const NOT_EMPTY: u8 = 5;
    pub(crate) const CONTENTION: u8 = 6;
    pub(crate) const UNKNOWN: u8 = 7;
    pub(crate) const DAMAGE: u8 = 8;
    pub(crate) const OTHERWISE: u8 = 9;
    pub(crate) const DONE_UNSAID: u8 = 10;
}

/// The result after a done operation whose report may have failed.
pub(crate) fn done(told: Result<(), Failure>) -> Result<(), Failure> {
    match told {
        Err(Failure::Failed(cause)) => {
            Err(Failure::Coded(code::DONE_UNSAID, format!("it was done, but the answer was not told: {cause}")))
        }
        told => told,
    }
}

/// Why a command failed, in words.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A mistake on the command line or in a file: exit code 2.
    Mistake(String),
    /// Any other failure: exit code 1.
    Failed(String),
    /// Ctrl-C was pressed: exit code 130, as in shells.
    Interrupted(String),
    /// A failure with an exit code of the command's own, for scripts.
    Coded(u8, String),
    /// The reader of the output has gone, as with `| head`: no message, and no error.
    NobodyReads,
}

impl Failure {
    /// This failure is the answer of a command, also if its report could not be printed. A closed pipe hides nothing,
    /// and neither does a full disk.
    pub(crate) fn after(self, told: Result<(), Self>) -> Self {
        let Err(Self::Failed(untold)) = told else { return self };
        let with = |message: String| format!("{message}; {untold}");
        match self {
            Self::Mistake(message) => Self::Mistake(with(message)),
            Self::Failed(message) => Self::Failed(with(message)),
            Self::Interrupted(message) => Self::Interrupted(with(message)),
            Self::Coded(code, message) => Self::Coded(code, with(message)),
            Self::NobodyReads => self,
        }
    }

    /// Prints it to the standard error output.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Mistake(message) => {
                complain(&format!("error: {message}"));
                ExitCode::from(2)
            }
            Self::Failed(message) => {
                complain(&format!("error: {message}"));
                ExitCode::FAILURE
            }
            Self::Interrupted(message) => {
                complain(message);
                ExitCode::from(130)
            }
            Self::Coded(code, message) => {
                complain(&format!("error: {message}"));
                ExitCode::from(*code)
            }
            Self::NobodyReads => ExitCode::SUCCESS,
        }
    }
}

/// The features of this build and one more, as after `--features`.
pub(crate) fn features_with(missing: &str) -> String {
    let known = [
        ("serve", cfg!(feature = "serve")),
        ("postgres", cfg!(feature = "postgres")),
        ("cassandra", cfg!(feature = "cassandra")),
    ];
    let wanted = known.iter().filter(|(name, is_built)| *is_built || *name == missing);
    wanted.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

/// The store at this URL needs a feature that this build does not have.
pub(crate) fn not_built(url: &str, feature: &str) -> Failure {
    let features = features_with(feature);
    Failure::Mistake(format!(
        "{url}: this program was built without the driver for {feature}; build it with `--features {features}`"
    ))
}

/// A store could not be opened, of a command for which that is a mistake.
pub(crate) fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::NotBuilt { url, feature } => not_built(&url, feature),
        error => Failure::Mistake(error.to_string()),
    }
}

/// The arguments of a command that this build does not have.
#[cfg(not(feature = "serve"))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Left {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<std::ffi::OsString>,
}

/// The command needs the server.
#[cfg(not(feature = "serve"))]
pub(crate) fn without_the_server() -> Failure {
    Failure::Mistake(format!(
        "this program was built without the server: build it with `cargo build --release --features {}`, or install it with \
         `cargo install --path crates/cli --features {}`",
        features_with("serve"),
        features_with("serve"),
    ))
}

macro_rules! becomes {
    ($($error:ty => $variant:ident),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error.to_string())
            }
        }
    )*};
}

becomes! {
    ExperimentError => Mistake,
    LibraryError => Mistake,
    LiveError => Failed,
    JournalError => Failed,
    PictureError => Failed,
    PicturesError => Failed,
    ReportError => Failed,
    RunError => Failed,
    SchemaError => Failed,
    serde_json::Error => Failed,
}

impl From<std::io::Error> for Failure {
    /// An error of the standard output.
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}
