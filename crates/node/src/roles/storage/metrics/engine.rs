//! An engine.

use std::fmt;

use nacre_embedded::EmbeddedEngine;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::page::{Page, bytes, plain, seconds};

/// Reads an engine.
#[derive(Debug)]
pub(in super::super) struct EngineCollector(pub EmbeddedEngine);

impl Collector for EngineCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, mut page) = (&self.0, Page(encoder));
        let stats = engine.stats();
        for (name, help, value) in [
            ("transactions", "Transactions that changed something", stats.transactions),
            ("reads", "Requests answered without a change", stats.reads),
            ("failures", "Transactions that failed", stats.failures),
            ("journal_groups", "Groups of transactions, each one sync", stats.groups),
            ("journal_segments_freed", "Segments that died", stats.segments_freed),
            ("checkpoints", "Moments a replay would start from", stats.checkpoints),
            (
                "upkeep_failures",
                "Parts of the upkeep that failed, each time",
                stats.upkeep_failures,
            ),
            ("replayed_transactions", "Transactions replayed at the start", stats.replayed),
        ] {
            page.counter(plain(name, help), value)?;
        }
        let help = "Written to the journal, padding included";
        page.counter(bytes("journal_written", help), stats.journal_bytes)?;
        let help = "Payloads moved so that their segment could go";
        page.counter(bytes("journal_relocated", help), stats.relocated_bytes)?;
        page.gauge(plain("queue_length", "Requests waiting for or run by a shard"), stats.queued)?;
        page.gauge(plain("journal_segments", "Segments of the journal"), stats.segments)?;
        for (name, help, value) in [
            ("journal_size", "Length of all segments of the journal", stats.segment_bytes),
            ("journal_live", "Of the journal, what objects refer to", stats.live_bytes),
            ("tables_size", "Length of the tables on disk", stats.table_bytes),
            ("disk_free", "Free on the engine's disk", stats.free_bytes),
            ("disk_reserve", "Of it, held back: nothing grows below it", stats.reserve_bytes),
        ] {
            page.gauge(bytes(name, help), value)?;
        }
        let help = "1 while the disk has less room than the reserve and nothing grows";
        let is_full = stats.free_bytes < stats.reserve_bytes;
        page.gauge(plain("engine_full", help), u32::from(is_full))?;
        let help = "1 while tables wait in memory for room on the disk";
        let waits = u32::from(stats.tables_wait_for_room);
        page.gauge(plain("tables_waiting_for_room", help), waits)?;
        let help = "1 once a write or sync has failed and the engine takes no more";
        page.gauge(plain("engine_failed", help), u32::from(engine.failure().is_some()))?;
        let Some(groups) = engine.groups() else { return Ok(()) };
        let help = "Transactions made durable by one sync";
        page.histogram(plain("journal_group_transactions", help), &groups.transactions)?;
        let help = "Writing a group to the journal";
        page.histogram(seconds("journal_write_duration", help), &groups.write_seconds)?;
        let help = "Syncing a group";
        page.histogram(seconds("journal_sync_duration", help), &groups.sync_seconds)?;
        let help = "Telling the tables what a group changed";
        page.histogram(seconds("tables_apply_duration", help), &groups.apply_seconds)
    }
}
