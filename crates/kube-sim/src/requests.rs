//! What was asked of the server: for tests and benches, and for the matchers of faults.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::effect::Effect;
use super::faults::InjectedFault;
use super::request_record::RequestRecord;

/// Requests kept in the record; older ones are forgotten, the counts are not.
const RECORDS: usize = 20_000;

/// How often each verb was used on each resource, by `(client, verb, resource)`.
pub type RequestCounts = BTreeMap<(String, String, String), u64>;

/// Faults to inject and requests that were received.
#[derive(Debug)]
pub(crate) struct Ledger {
    faults: Vec<InjectedFault>,
    /// Whether requests are remembered one by one.
    records_requests: bool,
    records: VecDeque<RequestRecord>,
    counts: RequestCounts,
    /// Requests that changed something, by client.
    writes: BTreeMap<String, u64>,
    seq: u64,
}

impl Ledger {
    pub fn new(records_requests: bool) -> Self {
        Self {
            faults: Vec::new(),
            records_requests,
            records: VecDeque::new(),
            counts: RequestCounts::new(),
            writes: BTreeMap::new(),
            seq: 0,
        }
    }

    pub fn inject(&mut self, fault: InjectedFault) {
        self.faults.push(fault);
    }

    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Numbers a request, records it, and returns the effects on it.
    pub fn begin(&mut self, record: &mut RequestRecord) -> Vec<Effect> {
        self.seq += 1;
        record.seq = self.seq;
        let now = Instant::now();
        let effects =
            self.faults.iter_mut().filter_map(|fault| fault.strike(record, now)).collect();
        self.faults.retain(|fault| !fault.is_over(now));
        if self.records_requests {
            self.count(record);
            if self.records.len() == RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(record.clone());
        }
        effects
    }

    fn count(&mut self, record: &RequestRecord) {
        let resource = if record.subresource.is_empty() {
            record.resource.clone()
        } else {
            format!("{}/{}", record.resource, record.subresource)
        };
        let key = (record.client.clone(), record.verb.clone(), resource);
        // Paths that lead nowhere are the client's choice, and there are many.
        if self.counts.len() < RECORDS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        }
    }

    /// Records the answer to a request.
    pub fn end(&mut self, request: &RequestRecord, code: u16) {
        if request.is_write() && (200..300).contains(&code) {
            // The names of clients are the clients' choice as well.
            let full = self.writes.len() >= RECORDS;
            match self.writes.get_mut(&request.client) {
                Some(writes) => *writes += 1,
                None if full => {}
                None => drop(self.writes.insert(request.client.clone(), 1)),
            }
        }
        let first = self.records.front().map_or(0, |r| r.seq);
        let index = request.seq.checked_sub(first).and_then(|i| usize::try_from(i).ok());
        if let Some(record) = index.and_then(|index| self.records.get_mut(index)) {
            record.code = code;
        }
    }

    pub fn writes(&self, client: &str) -> u64 {
        self.writes.get(client).copied().unwrap_or(0)
    }

    pub fn records(&self) -> Vec<RequestRecord> {
        self.records.iter().cloned().collect()
    }

    pub fn counts(&self) -> RequestCounts {
        self.counts.clone()
    }

    pub fn forget(&mut self) {
        self.records.clear();
        self.counts.clear();
        self.writes.clear();
    }
}
