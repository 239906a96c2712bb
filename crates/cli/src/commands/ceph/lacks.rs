//! Determines what a Ceph cluster lacks for nacre from its examined state. This is a pure function.

use nacre_rados::{Examination, Offer, OsdFacts, OsdSettings, PoolFacts, REPLY_BYTES};
use serde::Serialize;

/// The object class, as lists of classes name it.
const CLASS: &str = "nacre";
/// Copies that outlive the loss of one while another is being replaced.
const SAFE_SIZE: u32 = 3;
/// Copies below which a write must not be acknowledged.
const SAFE_MIN_SIZE: u32 = 2;

/// One thing that nacre needs and the cluster lacks, or that is set badly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What.
    pub what: String,
    /// Whether nacre needs it, rather than only being the better for it.
    pub is_needed: bool,
    /// What provides it, in order.
    pub commands: Vec<String>,
}

/// The things that nacre needs and the cluster lacks, the most important first. `pool` is the RADOS
/// pool in which nacre keeps its data.
pub fn lacks_of(pool: &str, examination: &Examination) -> Vec<Lack> {
    let mut lacks = Vec::new();
    lacks.extend(absent_pool(pool, examination));
    let osds = &examination.osds;
    let down = |osd: &OsdFacts| !osd.is_up;
    lacks.extend(of_osds(osds, down, "is down", true, |osd| {
        vec![format!("systemctl start ceph-osd@{}  # on {}", osd.osd, osd.host)]
    }));
    lacks.extend(CLASS_LISTS.iter().filter_map(|list| list.lack(osds)));
    lacks.extend(missing_class(osds));
    let short = |osd: &OsdFacts| {
        osd.settings.as_ref().is_some_and(|settings| settings.max_reply_bytes < REPLY_BYTES.into())
    };
    let what = "drops answers that nacre takes for granted";
    lacks.extend(of_osds(osds, short, what, true, |_| {
        vec![format!("ceph config set osd osd_max_write_op_reply_len {REPLY_BYTES}")]
    }));
    lacks.extend(few_copies(pool, examination.pool.as_ref()));
    lacks
}

fn absent_pool(pool: &str, examination: &Examination) -> Option<Lack> {
    let lack = |what: String, pool: &str| Lack {
        what,
        is_needed: true,
        commands: vec![
            format!("ceph osd pool create {pool}"),
            format!("ceph osd pool application enable {pool} nacre"),
        ],
    };
    match &examination.pool {
        None => Some(lack(format!("there is no pool {pool}"), pool)),
        Some(facts) if !facts.is_replicated => {
            let other = format!("{pool}-replicated");
            let what = format!(
                "pool {pool} is erasure-coded, and such pools keep no maps: use another (?pool={other})"
            );
            Some(lack(what, &other))
        }
        Some(_) => None,
    }
}

/// A list of classes among an OSD's settings.
struct ClassList {
    setting: &'static str,
    of: fn(&OsdSettings) -> &str,
    /// What an OSD does if its list does not contain the class.
    otherwise: &'static str,
}

const CLASS_LISTS: [ClassList; 2] = [
    ClassList {
        setting: "osd_class_load_list",
        of: |settings| &settings.load_list,
        otherwise: "does not load the class",
    },
    ClassList {
        setting: "osd_class_default_list",
        of: |settings| &settings.default_list,
        otherwise: "lets only clients call the class whose capabilities name it",
    },
];

impl ClassList {
    fn lack(&self, osds: &[OsdFacts]) -> Option<Lack> {
        let list =
            |osd: &OsdFacts| osd.settings.as_ref().map(|settings| (self.of)(settings).to_owned());
        let refuses = |osd: &OsdFacts| list(osd).is_some_and(|list| !admits(&list));
        of_osds(osds, refuses, self.otherwise, true, |osd| {
            let longer = format!("{} {CLASS}", list(osd).unwrap_or_default());
            vec![format!("ceph config set osd {} '{}'", self.setting, longer.trim_start())]
        })
    }
}

fn admits(list: &str) -> bool {
    list.split_whitespace().any(|name| name == "*" || name == CLASS)
}

fn missing_class(osds: &[OsdFacts]) -> Vec<Lack> {
    let offers = |wanted: Offer| {
        move |osd: &OsdFacts| osd.classes.is_some_and(|classes| classes.nacre == wanted)
    };
    let install = |osd: &OsdFacts| vec![format!("nacre ceph install  # on {}", osd.host)];
    // An OSD keeps the library that it has loaded, so it must be restarted.
    let replace = |osd: &OsdFacts| {
        let restart = format!("systemctl restart ceph-osd@{}  # on {}", osd.osd, osd.host);
        [install(osd), vec![restart]].concat()
    };
    let unbounded = |osd: &OsdFacts| {
        offers(Offer::No)(osd) && osd.classes.is_some_and(|classes| classes.cls_lua == Offer::Yes)
    };
    let missing = |osd: &OsdFacts| offers(Offer::No)(osd) && !unbounded(osd);
    let stock = "has no class nacre: marked programs run in cls_lua, whose time and memory have no \
                 bounds, others in the node";
    let kinds = [
        of_osds(osds, missing, "has no class nacre: programs run in the node", true, install),
        of_osds(osds, unbounded, stock, true, install),
        of_osds(
            osds,
            offers(Offer::OtherRelease),
            "has the class nacre of another release, which is not used",
            true,
            replace,
        ),
    ];
    kinds.into_iter().flatten().collect()
}

fn few_copies(pool: &str, facts: Option<&PoolFacts>) -> Vec<Lack> {
    let Some(facts) = facts.filter(|facts| facts.is_replicated) else { return vec![] };
    let lack = |what: String, setting: &str, value| Lack {
        what,
        is_needed: false,
        commands: vec![format!("ceph osd pool set {pool} {setting} {value}")],
    };
    let mut lacks = Vec::new();
    if facts.size < SAFE_SIZE {
        let what = format!("pool {pool} keeps {} of everything", copies(facts.size));
        lacks.push(lack(what, "size", SAFE_SIZE));
    }
    if facts.min_size < SAFE_MIN_SIZE {
        let what = format!("pool {pool} acknowledges writes with {} left", copies(facts.min_size));
        lacks.push(lack(what, "min_size", SAFE_MIN_SIZE));
    }
    lacks
}

fn copies(number: u32) -> String {
    if number == 1 { "one copy".to_owned() } else { format!("{number} copies") }
}

/// One report for all OSDs with the same problem. It lists each command once.
fn of_osds(
    osds: &[OsdFacts],
    is_so: impl Fn(&OsdFacts) -> bool,
    what: &str,
    is_needed: bool,
    provide: impl Fn(&OsdFacts) -> Vec<String>,
) -> Option<Lack> {
    let lacking: Vec<_> = osds.iter().filter(|osd| is_so(osd)).collect();
    if lacking.is_empty() {
        return None;
    }
    let names: Vec<_> = lacking.iter().map(|osd| format!("osd.{}", osd.osd)).collect();
    let mut commands: Vec<String> = Vec::new();
    for command in lacking.iter().flat_map(|osd| provide(osd)) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    // Installing the library must come before the restarts.
    commands.sort_by_key(|command| command.starts_with("systemctl"));
    Some(Lack { what: format!("{} {what}", names.join(" ")), is_needed, commands })
}

#[cfg(test)]
mod tests {
    use nacre_rados::OsdClasses;

    use super::*;

    fn good() -> Examination {
        let osd = |osd| OsdFacts {
            osd,
            is_up: true,
            host: "h".into(),
            ceph_version: "16.2.15".into(),
            object_store: "bluestore".into(),
            settings: Some(OsdSettings {
                load_list: "rbd nacre".into(),
                default_list: "*".into(),
                max_reply_bytes: 64,
            }),
            classes: Some(OsdClasses { osd, nacre: Offer::Yes, cls_lua: Offer::No }),
        };
        let pool = PoolFacts { is_replicated: true, size: 3, min_size: 2 };
        Examination { pool: Some(pool), osds: vec![osd(0), osd(1)] }
    }

    /// The lacks of a good cluster after `worsen` has changed it.
    fn lacking(worsen: impl Fn(&mut Examination)) -> Vec<Lack> {
        let mut examination = good();
        worsen(&mut examination);
        lacks_of("p", &examination)
    }

    #[test]
    fn a_healthy_cluster_lacks_nothing() {
        assert_eq!(lacking(|_| {}), []);
    }

    #[test]
    fn every_missing_thing_is_reported_with_the_commands_that_provide_it() {
        type Worsen = fn(&mut Examination);
        let cases: [(Worsen, &str, &[&str]); 8] = [
            (
                |e| e.pool = None,
                "there is no pool p",
                &["ceph osd pool create p", "ceph osd pool application enable p nacre"],
            ),
            (|e| e.osds[1].is_up = false, "osd.1 is down", &["systemctl start ceph-osd@1  # on h"]),
            (
                |e| e.osds[0].settings.as_mut().unwrap().load_list = "rbd rgw".into(),
                "osd.0 does not load the class",
                &["ceph config set osd osd_class_load_list 'rbd rgw nacre'"],
            ),
            (
                |e| e.osds[0].settings.as_mut().unwrap().default_list = "rbd".into(),
                "osd.0 lets only clients call the class whose capabilities name it",
                &["ceph config set osd osd_class_default_list 'rbd nacre'"],
            ),
            (
                |e| e.osds.iter_mut().for_each(|o| o.classes.as_mut().unwrap().nacre = Offer::No),
                "osd.0 osd.1 has no class nacre: programs run in the node",
                &["nacre ceph install  # on h"],
            ),
            (
                |e| e.osds[1].classes.as_mut().unwrap().nacre = Offer::OtherRelease,
                "osd.1 has the class nacre of another release, which is not used",
                &["nacre ceph install  # on h", "systemctl restart ceph-osd@1  # on h"],
            ),
            (
                |e| e.osds[1].settings.as_mut().unwrap().max_reply_bytes = 63,
                "osd.1 drops answers that nacre takes for granted",
                &["ceph config set osd osd_max_write_op_reply_len 64"],
            ),
            (
                |e| e.pool.as_mut().unwrap().size = 1,
                "pool p keeps one copy of everything",
                &["ceph osd pool set p size 3"],
            ),
        ];
        for (worsen, what, commands) in cases {
            let lacks = lacking(worsen);
            let [lack] = &lacks[..] else { panic!("{what}: {lacks:?}") };
            assert_eq!(
                (
                    lack.what.as_str(),
                    &lack.commands.iter().map(String::as_str).collect::<Vec<_>>()[..]
                ),
                (what, commands)
            );
        }
    }
}
