//! The instruction sets of the device `cpu`: how they are selected, and which this machine has.

use crate::program;
use crate::step::Outcome;

/// Selects the instruction set of the device `cpu`.
pub(crate) const ISA: &str = "ELINVAR_CPU_ISA";
/// Selects the number of its threads.
pub(crate) const THREADS: &str = "ELINVAR_THREADS";

/// An instruction set of the device `cpu`, and the steps that run the golden cases and random calls
/// on it.
pub(crate) struct OnIsa {
    pub isa: &'static str,
    pub golden: &'static str,
    pub random: &'static str,
}

pub(crate) static ISAS: [OnIsa; 3] = [
    OnIsa { isa: "avx2", golden: "cpu, avx2", random: "cpu, avx2, random calls" },
    OnIsa { isa: "avx512", golden: "cpu, avx512", random: "cpu, avx512, random calls" },
    OnIsa { isa: "neon", golden: "cpu, neon", random: "cpu, neon, random calls" },
];

impl OnIsa {
    /// The program refuses an instruction set that the processor does not have, with this sentence;
    /// any other error is a fault.
    pub fn is_there(&self) -> Result<bool, String> {
        let devices = program::lab()?.arg("devices").env(ISA, self.isa).output();
        let devices = devices.map_err(|e| format!("elinvar-lab did not start: {e}"))?;
        let said = String::from_utf8_lossy(&devices.stderr);
        match devices.status.success() {
            true => Ok(true),
            false if said.contains("there is no instruction set") => Ok(false),
            false => Err(format!(
                "`elinvar-lab devices` with {ISA}={} ends with {}: {said}",
                self.isa, devices.status
            )),
        }
    }
    /// A step on it, if the processor has it.
    pub fn on(&self, step: impl FnOnce(&[(&str, &str)]) -> Outcome) -> Outcome {
        match self.is_there() {
            Ok(true) => step(&[(ISA, self.isa)]),
            Ok(false) => Outcome::Skipped(format!("this processor has no {}", self.isa)),
            Err(why) => Outcome::Failed(why),
        }
    }
}
