//! Methods that drivers have alike: those of a device with one queue, which do what a shared handle
//! of device and queue does.

/// `Driver`'s `queue`, `after`, `receive`, `lend` and `multiply` of a device with one queue, no way
/// to other devices but by the host, and no library of its vendor's.
macro_rules! one_queue {
    () => {
        fn queue(&self) -> Result<Option<Self>> {
            Ok(None)
        }
        fn after(&self, _: &Self::Event) -> Result<()> {
            // The order of the one queue.
            Ok(())
        }
        fn receive(&self, _: &Self, _: Slice<'_, Self>, _: Slice<'_, Self>) -> Result<bool> {
            Ok(false)
        }
        fn lend(&self, _: &[Slice<'_, Self>], _: elinvar_core::NativeWork<'_>) -> Result<bool> {
            Ok(false)
        }
        fn multiply(&self, _: &VendorGemm, _: [Slice<'_, Self>; 3]) -> Result<bool> {
            Ok(false)
        }
    };
}
pub(crate) use one_queue;

/// Methods of a driver whose device and queue are one shared thing: what it does and how it waits.
macro_rules! shared_queue {
    () => {
        fn info(&self) -> &Info {
            &self.info
        }
        fn reached(&self, event: &Event) -> Result<bool> {
            self.shared.reached(event.0)
        }
        fn wait_for(&self, event: &Event) -> Result<()> {
            self.shared.wait_for(event.0)
        }
        fn allocate(&self, bytes: u64) -> Result<Memory> {
            Memory::new(&self.shared, bytes)
        }
        fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
            self.shared.queue().write(&self.shared, to, bytes)
        }
        fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
            self.shared.queue().copy(&self.shared, from, to)
        }
        fn wait(&self) -> Result<()> {
            self.shared.wait()
        }
        fn mark(&self) -> Result<Timestamp> {
            Timestamp::new(&self.shared)
        }
        fn between(&self, from: &Timestamp, to: &Timestamp) -> Result<Duration> {
            from.until(to)
        }
    };
}
pub(crate) use shared_queue;

/// Copies of such a driver, to and from memory that host and device see.
#[cfg(not(target_arch = "wasm32"))]
macro_rules! pinned_transfers {
    () => {
        fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
            self.shared.read(from, bytes)
        }
        fn pin(&self, bytes: usize) -> Result<PinnedMemory> {
            PinnedMemory::new(&self.shared, bytes)
        }
        fn upload(&self, from: PinnedMemory, to: Slice<'_, Self>) -> Result<Transfer> {
            self.shared.upload(from, to)
        }
        fn download(&self, from: Slice<'_, Self>, to: PinnedMemory) -> Result<Transfer> {
            self.shared.download(from, to)
        }
    };
}
#[cfg(not(target_arch = "wasm32"))]
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use pinned_transfers;
