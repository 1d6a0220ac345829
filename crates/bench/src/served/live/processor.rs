//! How much processor time have processes and threads used?

use rustix::time::{ClockId, clock_gettime};

/// Of this thread.
pub(super) fn of_thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Of other processes, user and kernel, with a resolution of 10 ms; `None` if one of them is not there, or the system
/// has no `/proc`.
#[must_use]
pub fn processor_of(processes: &[u32]) -> Option<u64> {
    if processes.is_empty() {
        return None;
    }
    let mut ticks = 0;
    for process in processes {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program, in brackets, may have blanks.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        ticks += field(11)? + field(12)?;
    }
    // Linux gives them in hundredths of a second to every program.
    Some(ticks * 10_000_000)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_a_process_is_read() {
        assert!(processor_of(&[std::process::id()]).is_some());
        assert_eq!(processor_of(&[u32::MAX]), None);
        assert_eq!(processor_of(&[]), None);
    }
}
