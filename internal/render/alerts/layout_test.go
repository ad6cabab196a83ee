package alerts

import (
	"encoding/json"
	"maps"
)

// kind is the type of a panel.
type kind string

const (
	number   kind = "stat"           // the last value of each, large
	timeline kind = "state-timeline" // the states over time
	curve    kind = "timeseries"
	list     kind = "table"
)

// panel is one panel of the board.
type panel struct {
	title, about string
	kind         kind
	unit         string
	width        int // of 24
	queries      []query
}

// query is an expression and the legend of its values.
type query struct{ expr, legend string }

type row struct {
	title  string
	panels []panel
}

// rows returns the board: answers to an administrator's questions, in the order
// in which they are asked.
func rows() []row {
	return []row{
		{"Now", []panel{
			{"Goes on by itself without", "The cluster survives the loss of this host now. No: the message of the condition Redundant, or the alerts, say why.", number, "yesno", 6, []query{
				{`min by (host) (holdfast_survives_loss)`, "{{host}}"},
			}},
			{"Alerts", "docs/runbook/alerts.md has a paragraph for each.", list, "", 9, []query{
				{`max by (alertname, severity, host, resource, vip) (ALERTS{alertname=~"Holdfast.*", alertstate="firing"})`, "{{alertname}}"},
			}},
			{"Cluster", "What either host sees; the worse one counts.", timeline, "yesno", 9, []query{
				{`min by (condition) (holdfast_pacemaker_cluster_condition{condition!~"Healthy|Redundant"} >= 0)`, "{{condition}}"},
			}},
			{"Hosts", "", timeline, "yesno", 12, []query{
				{`min by (host, condition) (holdfast_pacemaker_node_condition{condition=~"Online|Clean|Active|InService"} >= 0)`, "{{host}} {{condition}}"},
			}},
			{"kubelet and etcd under Pacemaker", "", timeline, "yesno", 12, []query{
				{`min by (host, resource) (holdfast_pacemaker_resource_condition{condition="Healthy"} >= 0)`, "{{resource}} on {{host}}"},
			}},
		}},
		{"Redundancy", []panel{
			{"Both hold every write", "Redundant: either host may be lost without the loss of an acknowledged write.", number, "yesno", 5, []query{
				{`min(holdfast_pacemaker_cluster_condition{condition="Redundant"} >= 0)`, "redundant"},
			}},
			{"Without the peer for", "Since Corosync lost it.", number, "s", 5, []query{
				{`time() - min by (instance) (holdfast_peer_lost_timestamp_seconds)`, "{{instance}}"},
			}},
			{"Record of each host", "pair: both may go on. sole: this one goes on alone. The rest is on the way between the two.", timeline, "", 8, []query{
				{`max by (instance, state) (holdfast_etcd_record)`, "{{instance}} {{state}}"},
			}},
			{"One host for both", "What a host would have to run alone, of what it has to give. Above 100 % pods stay pending.", number, "percentunit", 6, []query{
				{`max by (host, resource) (holdfast_failover_requests / holdfast_failover_allocatable)`, "{{host}} {{resource}}"},
			}},
			{"Members of etcd", "As each host's own etcd knows them.", curve, "", 12, []query{
				{`max by (kind) (holdfast_etcd_members)`, "{{kind}}s"},
			}},
			{"etcd has a leader", "", timeline, "yesno", 12, []query{
				{`max by (instance) (holdfast_etcd_has_leader)`, "{{instance}}"},
			}},
		}},
		{"Fencing", []panel{
			{"Fence agents", "Healthy: started on the peer, and its monitor reaches the BMC.", number, "yesno", 6, []query{
				{`max by (host, agent) (holdfast_pacemaker_fence_agent_condition{condition="Healthy"})`, "{{agent}}"},
			}},
			{"Since a fence last cut the power of", "holdfast fencing verify --disruptive proves it anew.", number, "s", 6, []query{
				{`time() - max by (host) (holdfast_fence_proven_timestamp_seconds > 0)`, "{{host}}"},
			}},
			{"How long a fence takes", "The delay is to be twice the worst.", curve, "s", 12, []query{
				{`max by (host) (holdfast_fence_last_seconds)`, "last of {{host}}"},
				{`max by (host) (holdfast_fence_worst_seconds)`, "worst of {{host}}"},
				{`max(holdfast_fence_delay_seconds)`, "delay"},
			}},
			{"Fences", "", curve, "", 12, []query{
				{`sum by (host, proven) (holdfast_fences_total)`, "of {{host}}, proven: {{proven}}"},
			}},
			{"Parts of the last fence", "", list, "s", 12, []query{
				{`max by (host, phase) (holdfast_fence_last_phase_seconds) > 0`, "{{host}} {{phase}}"},
			}},
		}},
		{"Virtual IPs", []panel{
			{"Holders", "Two at once are HoldfastVirtualIPHeldTwice.", timeline, "yesno", 12, []query{
				{`max by (vip, kind, instance) (holdfast_network_vip_held)`, "{{vip}} ({{kind}}) on {{instance}}"},
			}},
			{"Moves", "How often a host took one.", curve, "", 6, []query{
				{`sum by (vip, instance) (holdfast_network_vip_moves_total{to="held"})`, "{{vip}} to {{instance}}"},
			}},
			{"Claims by others", "Machines that answer for a VIP and should not; empty is well.", list, "", 6, []query{
				{`max by (vip, by) (holdfast_network_vip_claims)`, "{{vip}} by {{by}}"},
			}},
		}},
		{"Take-overs", []panel{
			{"Take-overs", "Since the host was installed.", number, "", 4, []query{
				{`sum by (instance) (holdfast_etcd_take_overs_total)`, "{{instance}}"},
			}},
			{"The last one", "", number, "dateTimeAsIso", 6, []query{
				{`1000 * max by (instance) (holdfast_etcd_take_over_last_timestamp_seconds)`, "{{instance}}"},
			}},
			{"How long it took", "From the loss of the peer until this host was the only voter, and from then until there were two again.", number, "s", 7, []query{
				{`max by (instance) (holdfast_etcd_take_over_last_seconds)`, "{{instance}} took over"},
				{`max by (instance) (holdfast_etcd_alone_last_seconds)`, "{{instance}} was alone"},
			}},
			{"The stand-in's vote", "Seconds since it started; writes work from committing on.", list, "s", 7, []query{
				{`max by (instance, step) (holdfast_etcd_stand_in_last_seconds)`, "{{instance}} {{step}}"},
			}},
		}},
	}
}

// board returns the file for Grafana. It can be imported, or put into a
// ConfigMap for Grafana's sidecar. It is made here, where its queries are
// tested; docs/dashboards contains it.
func board() []byte {
	var panels []any
	id, y := 1, 0
	add := func(p map[string]any, x, width, height int) {
		p["id"], p["gridPos"] = id, map[string]any{"x": x, "y": y, "w": width, "h": height}
		panels, id = append(panels, p), id+1
	}
	for _, r := range rows() {
		add(map[string]any{"type": "row", "title": r.title, "collapsed": false, "panels": []any{}}, 0, 24, 1)
		x := 0
		y++
		for _, p := range r.panels {
			if x+p.width > 24 {
				x, y = 0, y+7
			}
			add(p.object(), x, p.width, 7)
			x += p.width
		}
		y += 7
	}
	out, err := json.MarshalIndent(map[string]any{
		"uid": "holdfast-two-node", "title": "Holdfast: two hosts", "tags": []string{"holdfast"}, "schemaVersion": 39, "version": 1,
		"refresh": "30s", "time": map[string]any{"from": "now-6h", "to": "now"}, "timezone": "browser", "editable": true, "panels": panels,
		"templating": map[string]any{"list": []any{map[string]any{
			"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": map[string]any{}, "hide": 0, "refresh": 1,
		}}},
	}, "", " ")
	if err != nil {
		panic(err) // the value consists of texts and numbers
	}
	return append(out, '\n')
}

// source is the data source that the user selects at the top of the board.
func source() map[string]any { return map[string]any{"type": "prometheus", "uid": "${source}"} }

func (p panel) object() map[string]any {
	var targets []any
	for i, q := range p.queries {
		target := map[string]any{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend}
		if p.kind == list || p.kind == number {
			target["instant"] = true
		}
		if p.kind == list {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	return map[string]any{
		"type": string(p.kind), "title": p.title, "description": p.about, "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": p.fields(), "overrides": []any{}}, "options": p.options(),
	}
}

// fields defines the meaning of values: yes is green and no is red, each also
// in words.
func (p panel) fields() map[string]any {
	out := map[string]any{"noValue": "nothing"}
	switch p.unit {
	case "yesno":
		value := func(text, colour string, index int) map[string]any {
			return map[string]any{"text": text, "color": colour, "index": index}
		}
		out["mappings"] = []any{map[string]any{"type": "value", "options": map[string]any{
			"1": value("yes", "green", 0), "0": value("no", "red", 1), "-1": value("not known", "orange", 2),
		}}}
	case "percentunit":
		out["thresholds"] = map[string]any{"mode": "absolute", "steps": []any{
			map[string]any{"color": "green", "value": nil}, map[string]any{"color": "orange", "value": 0.9}, map[string]any{"color": "red", "value": 1},
		}}
		out["unit"] = p.unit
	case "":
	default:
		out["unit"] = p.unit
	}
	return out
}

func (p panel) options() map[string]any {
	out := map[string]any{}
	switch p.kind {
	case number:
		maps.Copy(out, map[string]any{
			"textMode": "value_and_name", "colorMode": "background", "graphMode": "none",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "values": false, "fields": ""},
		})
	case timeline:
		out["showValue"], out["legend"] = "never", map[string]any{"showLegend": true, "displayMode": "list", "placement": "bottom"}
	case curve:
		out["legend"] = map[string]any{"showLegend": true, "displayMode": "list", "placement": "bottom"}
	case list:
		out["showHeader"] = true
	}
	return out
}
