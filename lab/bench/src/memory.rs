//! Peak memory of a process, or of a GPU's tensors. A peak never falls: each workload runs in a
//! process of its own, and that of the empty program is subtracted.

use crate::data::Data;
use crate::row::Row;
use crate::{done, rows};
use elinvar::{Device, Error, Result};

/// The name of the process that only starts up.
pub const START: &str = "start";

/// Steps of training: the first creates the optimiser's state, the others run with it.
const STEPS: usize = 5;

/// Peak memory of this process, in MiB.
///
/// # Errors
/// `Unsupported` where the system does not report it: Linux does.
fn peak_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    held(&status)
        .ok_or_else(|| Error::unsupported("bench: this system does not tell how much memory a process held"))
}

fn held(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

/// Runs a few steps of a workload, or, by the name [`START`], multiplies two small matrices; then
/// returns the peak memory of this process in MiB; on a GPU that of its tensors.
///
/// # Errors
/// `InvalidArgument` if there is no such workload; `Unsupported` if the system does not report it;
/// the device's errors.
pub fn memory_of(workload: &str, device: &Device) -> Result<f64> {
    let is_host = matches!(device, Device::Cpu(_) | Device::Reference(_));
    if workload == START {
        let mut data = Data::new(device.clone());
        let (x, w) = (data.floats(&[4, 4]), data.floats(&[4, 4]));
        done(&x.matmul(&w))?;
    } else {
        let trained: Vec<Row> = rows().into_iter().filter(Row::trains).collect();
        let Some(row) = trained.iter().find(|row| row.workload == workload) else {
            let names: Vec<&str> = trained.iter().map(|row| row.workload.as_str()).collect();
            return Err(Error::argument(format!(
                "bench: no training step is called \"{workload}\"; there are {}",
                names.join(", ")
            )));
        };
        row.repeat(device, STEPS)?;
    }
    if is_host { peak_memory() } else { Ok(device.memory_stats()?.peak as f64 / f64::from(1 << 20)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_what_linux_writes() {
        assert_eq!(held("Name:\tx\nVmPeak:\t  9216 kB\nVmHWM:\t    2560 kB\nVmRSS:\t 1 kB\n"), Some(2.5));
        assert_eq!(held("VmHWM:\t many kB\n"), None);
        assert_eq!(held(""), None);
    }
}
