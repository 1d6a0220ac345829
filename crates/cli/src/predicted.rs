//! On what does a prediction beside a measurement rest, and does it still hold?

use glidepath_lab::library::Shelf;
use glidepath_sim::Profile;

use crate::failure::Failure;
use crate::origin::{ago, bare};
use crate::output::deviation_percent;

/// If every prediction is off by more than this share, to the same side, the cause is what they have in common.
const OFF: f64 = 0.25;

/// A profile by its name or file.
pub(crate) fn read_profile(name: &str) -> Result<Profile, Failure> {
    let text = Shelf::Providers.find(name)?;
    Profile::parse(&text.text).map_err(|error| Failure::Mistake(format!("{}: {error}", text.origin)))
}

/// The warning about predictions with a profile that was measured on another store.
pub(crate) fn of_another_store(profile: &Profile, url: &str) -> Option<String> {
    let (store, bench) = (measured_store(profile)?, bare(url));
    is_of_another(profile, url).then(|| {
        format!("warning: --profile is of another store ({store}): the predictions are of that one, and not of {bench}")
    })
}

/// The store on which a profile was measured.
fn measured_store(profile: &Profile) -> Option<&str> {
    profile.title.split_once(", as measured ").filter(|_| profile.measured.is_some()).map(|(store, _)| store)
}

fn is_of_another(profile: &Profile, url: &str) -> bool {
    measured_store(profile).is_some_and(|store| store.trim_end_matches('/') != bare(url).trim_end_matches('/'))
}

/// How far all of so many predictions are off at least.
fn off(least: f64, count: usize) -> String {
    let side = if least > 0.0 { "high" } else { "low" };
    let least = deviation_percent(least.abs());
    let least = least.trim_start_matches('+');
    match count {
        1 => format!("The prediction is too {side} by {least}"),
        _ => format!("All predictions are too {side}, by {least} or more"),
    }
}

/// What to know about the predictions: when their profile was measured, if it was, and whether all of them are off to
/// one side. The errors are predicted / measured - 1; `store` is what was measured, if the profile should be of it.
pub(crate) fn basis(profile: &Profile, store: Option<&str>, errors: &[f64]) -> Option<String> {
    let common = common_error(errors);
    let off = common.map(|least| off(least, errors.len()));
    let Some(measured) = profile.measured.as_ref().filter(|_| !store.is_some_and(|url| is_of_another(profile, url)))
    else {
        return off
            .map(|off| format!("{off}: the profile is not of this store. `glidepath measure` writes one that is."));
    };
    let ago = ago(&measured.date).map_or_else(String::new, |ago| format!(" ({ago})"));
    let then = if common.is_some_and(|least| least > 0.0) { "faster" } else { "slower" };
    let cause = off.map_or_else(String::new, |off| {
        format!(" {off}: the store was probably {then} then. Run `glidepath measure` directly before a comparison.")
    });
    Some(format!("The profile was measured on {}{ago}.{cause}", measured.date))
}

/// The error nearest to zero, if all are more than [`OFF`] to the same side.
fn common_error(errors: &[f64]) -> Option<f64> {
    let nearest = errors.iter().copied().min_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let is_common = errors.iter().all(|error| error.signum() == nearest.signum());
    (nearest.abs() > OFF && is_common).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_to_one_side_have_a_common_cause() {
        assert_eq!(common_error(&[0.5, 0.3, 0.9]), Some(0.3));
        assert_eq!(common_error(&[-0.5, -0.3]), Some(-0.3));
        for mixed in [&[0.5, -0.3][..], &[0.5, 0.1], &[]] {
            assert_eq!(common_error(mixed), None);
        }
    }
}
