//! Results of measurements: lines of JSON.
//!
//! The lines of other libraries have neither group nor operations nor bytes: a page of results
//! takes those from ours.

use serde::Serialize;

/// A time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The library: [`OURS`](crate::OURS) or a variant of it.
    pub peer: &'static str,
    /// Version of elinvar.
    pub version: &'static str,
    /// Group of workloads.
    pub group: String,
    /// Name of the workload.
    pub workload: String,
    /// Sizes.
    pub shape: String,
    /// Element type.
    pub dtype: &'static str,
    /// Threads of the device.
    pub threads: usize,
    /// Seconds of a call.
    pub median_s: f64,
    /// The quickest sample.
    pub min_s: f64,
    /// The slowest sample.
    pub max_s: f64,
    /// Number of samples.
    pub samples: usize,
    /// Operations of the useful work; 0 if not meaningful.
    pub flops: f64,
    /// Bytes if every input is read once and every output written once; 0 if not meaningful.
    pub bytes: f64,
    /// 10^9 operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gflops: Option<f64>,
    /// 10^9 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
}

/// A figure other than a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The library.
    pub peer: &'static str,
    /// Version of elinvar.
    pub version: &'static str,
    /// Name of the workload.
    pub workload: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// Threads of the device.
    pub threads: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_fields_that_all_libraries_share() {
        let line = Line {
            peer: "ours",
            version: "1",
            group: "b. elementwise".into(),
            workload: "add".into(),
            shape: "4".into(),
            dtype: "f32",
            threads: 2,
            median_s: 1.5e-6,
            min_s: 1e-6,
            max_s: 2e-6,
            samples: 5,
            flops: 0.0,
            bytes: 48.0,
            gflops: None,
            gbps: Some(0.25),
        };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"peer":"ours","version":"1","group":"b. elementwise","workload":"add","shape":"4","dtype":"f32","threads":2,"median_s":1.5e-6,"min_s":1e-6,"max_s":2e-6,"samples":5,"flops":0.0,"bytes":48.0,"gbps":0.25}"#
        );
    }
}
