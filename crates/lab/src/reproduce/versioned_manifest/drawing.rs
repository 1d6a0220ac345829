//! The picture.
use super::{Ours, Sweep};
use glidepath_picture::Chart;
/// Published against simulated.
#[must_use]
pub fn chart(_sweep: &Sweep, _ours: &[Ours]) -> Chart {
    Chart::Panels(glidepath_picture::Panels::default())
}
