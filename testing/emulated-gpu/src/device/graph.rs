//! Captured work, and graphs of it.

use super::{Device, Done, Error, Operation};
use std::sync::Arc;

impl Device {
    /// Starts to capture a stream.
    pub fn begin_capture(&mut self, stream: u64) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(Error::INVALID_HANDLE);
        }
        match self.captures.insert(stream, Vec::new()) {
            None => Ok(()),
            Some(_) => Err(Error::ILLEGAL_STATE),
        }
    }
    /// Ends a capture; returns its graph.
    pub fn end_capture(&mut self, stream: u64) -> Done<u64> {
        let all = self.captures.remove(&stream).ok_or(Error::ILLEGAL_STATE)?;
        let handle = self.handle();
        self.graphs.insert(handle, (false, Arc::new(all)));
        Ok(handle)
    }
    /// Instantiates a graph.
    pub fn instantiate(&mut self, graph: u64) -> Done<u64> {
        let all = match self.graphs.get(&graph) {
            Some((false, all)) => all.clone(),
            Some((true, _)) | None => return Err(Error::INVALID_HANDLE),
        };
        let handle = self.handle();
        self.graphs.insert(handle, (true, all));
        Ok(handle)
    }
    /// Adds the work of a graph to a stream.
    pub fn launch_graph(&mut self, graph: u64, stream: u64) -> Done {
        match self.graphs.get(&graph) {
            Some((true, all)) => self.push(stream, Operation::Graph(all.clone())),
            Some((false, _)) | None => Err(Error::INVALID_HANDLE),
        }
    }
    /// Destroys a graph.
    pub fn end_graph(&mut self, graph: u64, ready: bool) -> Done {
        match self.graphs.remove(&graph) {
            Some((is, _)) if is == ready => Ok(()),
            Some(_) | None => Err(Error::INVALID_HANDLE),
        }
    }
}
