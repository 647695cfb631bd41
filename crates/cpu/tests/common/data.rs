//! Host memory, and the same as memory of the CPU backend.

use elinvar_core::HostData;
use elinvar_cpu::CpuBuffer;
use std::ops::Deref;
use std::sync::OnceLock;

/// Host memory, for the reference, and when it is asked for a copy of it, for the CPU backend.
#[derive(Debug)]
pub struct Data {
    host: HostData,
    cpu: OnceLock<CpuBuffer>,
}

impl Data {
    pub fn cpu(&self) -> &CpuBuffer {
        self.cpu.get_or_init(|| CpuBuffer::from(self.host.clone()))
    }
}

impl From<HostData> for Data {
    fn from(host: HostData) -> Data {
        Data { host, cpu: OnceLock::new() }
    }
}

impl Deref for Data {
    type Target = HostData;
    fn deref(&self) -> &HostData {
        &self.host
    }
}

impl Clone for Data {
    fn clone(&self) -> Data {
        self.host.clone().into()
    }
}

/// Numbers that a backend gave.
pub trait Numbers {
    fn numbers(&self) -> &HostData;
}

impl Numbers for HostData {
    fn numbers(&self) -> &HostData {
        self
    }
}

impl Numbers for CpuBuffer {
    fn numbers(&self) -> &HostData {
        self.data().expect("memory enough for tests")
    }
}
