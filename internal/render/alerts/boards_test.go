package alerts

// boards returns all dashboards.
func boards() []board {
	return []board{
		// A healthy site, one without cp-2, and one with cp-2 again.
		{uid: "holdfast-two-node", title: "Holdfast: two hosts", rows: ofTwoHosts(), moments: []string{"healthy", "lost", "back"}},
		// testdata/metrics/years/README.md says how each moment was made.
		{
			uid: "holdfast-years", title: "Holdfast: a site's years", rows: ofYears(),
			recorded: "years", moments: []string{"quiet", "configures", "renews", "rotates", "upgrades", "proves"},
		},
	}
}

// ofTwoHosts answers an administrator's questions about the loss of a host, in the
// order in which they are asked.
func ofTwoHosts() []row {
	return []row{
		{"Now", []panel{
			{title: "Goes on by itself without", about: "The cluster survives the loss of this host now. No: the message of the condition Redundant, or the alerts, say why.", kind: number, unit: "yesno", width: 6, queries: []query{
				{`min by (host) (holdfast_survives_loss)`, "{{host}}"},
			}},
			{title: "Alerts", about: "docs/runbook/alerts.md has a paragraph for each.", kind: list, width: 9, queries: []query{
				{`max by (alertname, severity, host, resource, vip) (ALERTS{alertname=~"Holdfast.*", alertstate="firing"})`, "{{alertname}}"},
			}},
			{title: "Cluster", about: "What either host sees; the worse one counts.", kind: timeline, unit: "yesno", width: 9, queries: []query{
				{`min by (condition) (holdfast_pacemaker_cluster_condition{condition!~"Healthy|Redundant"} >= 0)`, "{{condition}}"},
			}},
			{title: "Hosts", kind: timeline, unit: "yesno", width: 12, queries: []query{
				{`min by (host, condition) (holdfast_pacemaker_node_condition{condition=~"Online|Clean|Active|InService"} >= 0)`, "{{host}} {{condition}}"},
			}},
			{title: "kubelet and etcd under Pacemaker", kind: timeline, unit: "yesno", width: 12, queries: []query{
				{`min by (host, resource) (holdfast_pacemaker_resource_condition{condition="Healthy"} >= 0)`, "{{resource}} on {{host}}"},
			}},
		}},
		{"Redundancy", []panel{
			{title: "Both hold every write", about: "Redundant: either host may be lost without the loss of an acknowledged write.", kind: number, unit: "yesno", width: 5, queries: []query{
				{`min(holdfast_pacemaker_cluster_condition{condition="Redundant"} >= 0)`, "redundant"},
			}},
			{title: "Without the peer for", about: "Since Corosync lost it.", kind: number, unit: "s", width: 5, queries: []query{
				{`time() - min by (instance) (holdfast_peer_lost_timestamp_seconds)`, "{{instance}}"},
			}},
			{title: "Record of each host", about: "pair: both may go on. sole: this one goes on alone. The rest is on the way between the two.", kind: timeline, width: 8, queries: []query{
				{`max by (instance, state) (holdfast_etcd_record)`, "{{instance}} {{state}}"},
			}},
			{title: "One host for both", about: "What a host would have to run alone, of what it has to give. Above 100 % pods stay pending.", kind: number, unit: "percentunit", width: 6, queries: []query{
				{`max by (host, resource) (holdfast_failover_requests / holdfast_failover_allocatable)`, "{{host}} {{resource}}"},
			}},
			{title: "Members of etcd", about: "As each host's own etcd knows them.", kind: curve, width: 12, queries: []query{
				{`max by (kind) (holdfast_etcd_members)`, "{{kind}}s"},
			}},
			{title: "etcd has a leader", kind: timeline, unit: "yesno", width: 12, queries: []query{
				{`max by (instance) (holdfast_etcd_has_leader)`, "{{instance}}"},
			}},
		}},
		{"Fencing", []panel{
			{title: "Fence agents", about: "Healthy: started on the peer, and its monitor reaches the BMC.", kind: number, unit: "yesno", width: 6, queries: []query{
				{`max by (host, agent) (holdfast_pacemaker_fence_agent_condition{condition="Healthy"})`, "{{agent}}"},
			}},
			{title: "Since a fence last cut the power of", about: "holdfast fencing verify --disruptive proves it anew.", kind: number, unit: "s", width: 6, queries: []query{
				{`time() - max by (host) (holdfast_fence_proven_timestamp_seconds > 0)`, "{{host}}"},
			}},
			{title: "How long a fence takes", about: "The delay is to be twice the worst.", kind: curve, unit: "s", width: 12, queries: []query{
				{`max by (host) (holdfast_fence_last_seconds)`, "last of {{host}}"},
				{`max by (host) (holdfast_fence_worst_seconds)`, "worst of {{host}}"},
				{`max(holdfast_fence_delay_seconds)`, "delay"},
			}},
			{title: "Fences", kind: curve, width: 12, queries: []query{
				{`sum by (host, proven) (holdfast_fences_total)`, "of {{host}}, proven: {{proven}}"},
			}},
			{title: "Parts of the last fence", kind: list, unit: "s", width: 12, queries: []query{
				{`max by (host, phase) (holdfast_fence_last_phase_seconds) > 0`, "{{host}} {{phase}}"},
			}},
		}},
		{"Virtual IPs", []panel{
			{title: "Holders", about: "Two at once are HoldfastVirtualIPHeldTwice.", kind: timeline, unit: "yesno", width: 12, queries: []query{
				{`max by (vip, kind, instance) (holdfast_network_vip_held)`, "{{vip}} ({{kind}}) on {{instance}}"},
			}},
			{title: "Moves", about: "How often a host took one.", kind: curve, width: 6, queries: []query{
				{`sum by (vip, instance) (holdfast_network_vip_moves_total{to="held"})`, "{{vip}} to {{instance}}"},
			}},
			{title: "Claims by others", about: "Machines that answer for a VIP and should not; empty is well.", kind: list, width: 6, queries: []query{
				{`max by (vip, by) (holdfast_network_vip_claims)`, "{{vip}} by {{by}}"},
			}, rare: true},
		}},
		{"Take-overs", []panel{
			{title: "Take-overs", about: "Since the host was installed.", kind: number, width: 4, queries: []query{
				{`sum by (instance) (holdfast_etcd_take_overs_total)`, "{{instance}}"},
			}},
			{title: "The last one", kind: number, unit: "dateTimeAsIso", width: 6, queries: []query{
				{`1000 * max by (instance) (holdfast_etcd_take_over_last_timestamp_seconds)`, "{{instance}}"},
			}},
			{title: "How long it took", about: "From the loss of the peer until this host was the only voter, and from then until there were two again.", kind: number, unit: "s", width: 7, queries: []query{
				{`max by (instance) (holdfast_etcd_take_over_last_seconds)`, "{{instance}} took over"},
				{`max by (instance) (holdfast_etcd_alone_last_seconds)`, "{{instance}} was alone"},
			}},
			{title: "The stand-in's vote", about: "Seconds since it started; writes work from committing on.", kind: list, unit: "s", width: 7, queries: []query{
				{`max by (instance, step) (holdfast_etcd_stand_in_last_seconds)`, "{{instance}} {{step}}"},
			}},
		}},
	}
}

// ofYears answers what a site does that is to live for years, and what it waits for.
func ofYears() []row {
	return []row{
		{"Configurations of hosts", []panel{
			{title: "What each host does", about: "What it says of its configuration. waits, failed and changed: holdfast status says why, and what to type.", kind: timeline, width: 12, queries: []query{
				{`max by (instance, stage) (holdfast_machine_config_state)`, "{{instance}} {{stage}}"},
			}},
			{title: "All hosts have theirs", about: "Of each pool.", kind: timeline, unit: "yesno", width: 6, queries: []query{
				{`min by (pool) (holdfast_machine_config_pool_conditions{condition="Updated"} >= 0)`, "{{pool}}"},
			}},
			{title: "Hosts of the pools", kind: curve, width: 6, queries: []query{
				{`max by (pool, are) (holdfast_machine_config_pool_hosts)`, "{{pool}} {{are}}"},
			}},
			{title: "Wants a reboot", about: "The distribution of the host wants it, and nobody has asked for one; empty is well.", kind: list, width: 8, queries: []query{
				{`max by (instance) (holdfast_reboot_required)`, "{{instance}}"},
			}, rare: true},
			{title: "Updates were not installed", about: "Empty is well.", kind: list, width: 8, queries: []query{
				{`max by (instance) (holdfast_updates_failed)`, "{{instance}}"},
			}, rare: true},
			{title: "Waits for too long", about: "A reboot, updates or a drain that somebody wants; empty is well.", kind: list, width: 8, queries: []query{
				{`max by (instance, wish) (holdfast_wish_late)`, "{{wish}} of {{instance}}"},
			}, rare: true},
		}},
		{"Upgrades", []panel{
			{title: "Phase", about: "How far the site is. Idle: none is under way.", kind: timeline, width: 9, queries: []query{
				{`max by (phase) (holdfast_upgrade_phase == 1)`, "{{phase}}"},
			}},
			{title: "Waits", about: "For a person, or for something that passes: holdfast upgrade status says for what.", kind: number, unit: "waits", width: 3, queries: []query{
				{`max(holdfast_upgrade_paused)`, "waits"},
			}},
			{title: "The way back is open for", about: "The site can return to the former release until somebody commits to the new one.", kind: number, unit: "s", width: 4, queries: []query{
				{`time() - max(holdfast_upgrade_way_back_open_since_seconds)`, "since it began"},
			}},
			{title: "Closed gates", about: "What keeps an upgrade from beginning or from going on.", kind: list, width: 8, queries: []query{
				{`max by (gate) (holdfast_upgrade_gate_closed)`, "{{gate}}"},
			}},
		}},
		{"Certificates", []panel{
			{title: "Until the first ends", about: "Of all certificates of a host.", kind: number, unit: "until", width: 6, queries: []query{
				{`min by (instance) (holdfast_certificate_not_after_timestamp_seconds) - time()`, "{{instance}}"},
			}},
			{title: "Until a renewal is late", about: "Below zero: the host should have renewed a certificate and has not.", kind: number, unit: "until", width: 6, queries: []query{
				{`min by (instance) (holdfast_certificate_renewal_late_timestamp_seconds) - time()`, "{{instance}}"},
			}},
			{title: "Renewals", about: "Since the agent started.", kind: curve, width: 6, queries: []query{
				{`sum by (instance) (holdfast_certificate_renewals_total)`, "{{instance}}"},
			}},
			{title: "Until a rotation is late", about: "Of an authority, or of the key of secrets in etcd, while it is replaced. Below zero: it does not go on, and holdfast status says for what it waits.", kind: number, unit: "until", width: 6, queries: []query{
				{`min by (authority) (holdfast_authority_rotation_late_timestamp_seconds) - time()`, "{{authority}}"},
			}},
		}},
		{"Backups and etcd's space", []panel{
			{title: "Age of the newest good backup", about: "A restore loses what was written since.", kind: number, unit: "s", width: 6, queries: []query{
				{`time() - max by (instance) (holdfast_backup_good_timestamp_seconds)`, "{{instance}}"},
			}},
			{title: "Age of the newest copy", about: "Read back at the target. Empty: no target has one, and all backups are lost with the hosts.", kind: number, unit: "s", width: 6, queries: []query{
				{`time() - max by (target) (holdfast_backup_sent_timestamp_seconds)`, "{{target}}"},
			}, rare: true},
			{title: "What fails again and again", about: "Tries in a row.", kind: curve, width: 6, queries: []query{
				{`max by (instance) (holdfast_backup_failures)`, "backups of {{instance}}"},
				{`max by (instance) (holdfast_etcd_defragmentation_failures)`, "defragmentations of {{instance}}"},
			}},
			{title: "etcd is full", about: "It takes no writes then.", kind: number, unit: "waits", width: 6, queries: []query{
				{`max(holdfast_etcd_no_space)`, "full"},
			}},
			{title: "Database of etcd", about: "At the quota it takes no writes.", kind: curve, unit: "bytes", width: 18, queries: []query{
				{`max by (instance) (holdfast_etcd_database_size_bytes)`, "{{instance}}"},
				{`max by (instance) (holdfast_etcd_database_in_use_bytes)`, "{{instance}} in use"},
				{`min(holdfast_etcd_quota_bytes)`, "quota"},
			}},
			{title: "Of the quota", kind: number, unit: "percentunit", width: 6, queries: []query{
				{`max by (instance) (holdfast_etcd_database_size_bytes / holdfast_etcd_quota_bytes)`, "{{instance}}"},
			}},
		}},
	}
}
