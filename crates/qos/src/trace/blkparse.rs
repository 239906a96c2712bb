//! Reads the text that blkparse prints by default.
//!
//! A line is `MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS]`. A
//! request arrives with the action `Q` (queued). Other actions are later steps of the same request
//! and are skipped. The summary at the end begins with `CPU` or `Total`.

use nacre_object::{Error, Result};

use super::fields::{SECTOR_BYTES, seconds, sectors, size_in};
use super::reader::{Line, LineReader, RawLocation, RawRecord};
use crate::IoKind;

/// Reads the lines.
#[derive(Default)]
pub(super) struct Lines {
    has_events: bool,
}

impl LineReader for Lines {
    fn read_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>> {
        if line.trim().is_empty() {
            return Ok(Line::Nothing);
        }
        if self.has_events && (line.starts_with("CPU") || line.starts_with("Total")) {
            return Ok(Line::End);
        }
        let mut fields = line.split_ascii_whitespace();
        let mut next = |what: &str| {
            fields.next().ok_or_else(|| Error::invalid(format!("the line has no {what}")))
        };
        let device = next("device")?;
        let is_device = device.split_once(',').is_some_and(|(major, minor)| {
            major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()
        });
        if !is_device {
            return Err(Error::invalid(format!(
                "{device:?} is no device; a device is MAJOR,MINOR"
            )));
        }
        let (_cpu, _sequence) = (next("CPU")?, next("sequence number")?);
        let at = seconds(next("time")?)?;
        let (_process, action) = (next("process")?, next("action")?);
        self.has_events = true;
        if action != "Q" {
            return Ok(Line::Nothing);
        }
        let Some(kind) = kind_of(next("RWBS")?) else { return Ok(Line::Nothing) };
        let sector = next("sector")?;
        // A flush without data has no sector.
        if !sector.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Line::Nothing);
        }
        let offset = sectors(sector, "sector")?;
        if next("plus sign")? != "+" {
            return Err(Error::invalid("there is no + between the sector and the size"));
        }
        let bytes = size_in(next("size")?, SECTOR_BYTES)?;
        let location = RawLocation::Block { volume: device, offset };
        Ok(Line::Request(RawRecord { at, kind, bytes, location }))
    }
}

/// Whether these letters mean a read or a write. A discard moves no data.
fn kind_of(rwbs: &str) -> Option<IoKind> {
    match rwbs {
        _ if rwbs.contains('D') => None,
        _ if rwbs.contains('R') => Some(IoKind::Read),
        _ if rwbs.contains('W') => Some(IoKind::Write),
        _ => None,
    }
}
