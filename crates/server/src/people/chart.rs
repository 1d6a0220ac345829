//! Commits over time, drawn as bars.

use maud::{Markup, html};

use super::recent::{BARS, Bars, Did};
use super::text::{grouped, time_of_day};

/// The place of the bars in the drawing.
const LEFT: u64 = 44;
const TOP: u64 = 10;
const WIDTH: u64 = 660;
const HEIGHT: u64 = 130;

/// The smallest of 1, 2 and 5 times a power of ten that is not below; it can be halved to a whole number from 10 on.
fn ceiling(most: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let round = power.saturating_mul(factor);
            if round >= most.max(4) {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn height(amount: u64, top: u64) -> f64 {
    amount as f64 / top as f64 * HEIGHT as f64
}

/// The chart.
pub(super) fn chart(bars: &Bars) -> Markup {
    let top = ceiling(bars.bars.iter().map(|bar| bar.all()).max().unwrap_or(0));
    let each = WIDTH / BARS as u64;
    let minutes = BARS as u64 * bars.width_ms / 60_000;
    let words = format!("Commits per {} s in the last {minutes} minutes", bars.width_ms / 1000);
    html! {
        svg.chart viewBox={ "0 0 " (LEFT + WIDTH + 6) " " (TOP + HEIGHT + 24) } role="img" aria-label=(words) {
            @for (part, shown) in [(2, top), (1, top / 2), (0, 0)] {
                @let y = TOP + HEIGHT - HEIGHT * part / 2;
                @if part != 1 || top.is_multiple_of(2) {
                    line.grid x1=(LEFT) x2=(LEFT + WIDTH) y1=(y) y2=(y) {}
                    text x=(LEFT - 6) y=(y + 4) text-anchor="end" { (grouped(shown)) }
                }
            }
            @for (index, bar) in bars.bars.iter().enumerate() {
                @if bar.all() > 0 {
                    (drawn(*bar, LEFT + index as u64 * each, each, top, bars.from_ms + index as u64 * bars.width_ms))
                }
            }
            @for (part, words) in ago(minutes) {
                text x=(LEFT + WIDTH * part / 2) y=(TOP + HEIGHT + 17) text-anchor=(["start", "middle", "end"][part as usize]) {
                    (words)
                }
            }
        }
    }
}

/// The labels of the time axis.
fn ago(minutes: u64) -> [(u64, String); 3] {
    let half = minutes as f64 / 2.0;
    [(0, format!("{minutes} min ago")), (1, format!("{half} min ago")), (2, "now".to_owned())]
}

fn drawn(bar: Did, x: u64, width: u64, top: u64, from_ms: u64) -> Markup {
    let mut base = 0.0;
    let parts =
        [("good", bar.committed), ("refused", bar.conflicts), ("unknown", bar.unknown)].map(|(kind, amount)| {
            let own = height(amount, top);
            base += own;
            (kind, (TOP + HEIGHT) as f64 - base, own)
        });
    let at = time_of_day(i64::try_from(from_ms).unwrap_or(i64::MAX));
    html! {
        g {
            title {
                "from " (at) " UTC: " (grouped(bar.committed)) " committed, " (grouped(bar.conflicts)) " conflicts, "
                (grouped(bar.unknown)) " of unknown outcome"
            }
            // The whole column answers to the pointer.
            rect.hover x=(x) width=(width) y=(TOP) height=(HEIGHT) {}
            @for (kind, y, own) in parts {
                @if own > 0.0 {
                    rect class=(kind) x=(x + 1) width=(width - 2) y=(format!("{y:.1}")) height=(format!("{own:.1}")) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_round_and_holds_the_highest_bar() {
        assert_eq!([0, 3, 5, 6, 11, 99, 100, 101].map(ceiling), [5, 5, 5, 10, 20, 100, 100, 200]);
        let mut bars = Bars { bars: [Did::default(); BARS], from_ms: 0, width_ms: 5000 };
        bars.bars[59] = Did { committed: 8, conflicts: 2, unknown: 0 };
        let drawn = chart(&bars).into_string();
        assert!(drawn.contains("8 committed, 2 conflicts, 0 of unknown outcome"), "{drawn}");
        assert!(drawn.contains("from 00:04:55 UTC") && drawn.contains("height=\"104.0\""), "{drawn}");
    }
}
