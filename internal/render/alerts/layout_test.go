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

// panel is one panel of a board.
type panel struct {
	title, about string
	kind         kind
	unit         string // of Grafana, or one of those that fields knows
	width        int    // of 24
	queries      []query
	rare         bool // the recordings have nothing for it
}

// query is an expression and the legend of its values.
type query struct{ expr, legend string }

type row struct {
	title  string
	panels []panel
}

// board is a dashboard.
type board struct {
	uid, title string
	rows       []row
	// recorded is the folder below testdata/metrics with a recording of each moment:
	// what the hosts served then. Each moment counts for ten minutes.
	recorded string
	moments  []string
}

// file returns the file for Grafana. It can be imported, or put into a
// ConfigMap for Grafana's sidecar. It is made here, where its queries are
// tested; docs/dashboards contains it.
func (b board) file() []byte {
	var panels []any
	id, y := 1, 0
	add := func(p map[string]any, x, width, height int) {
		p["id"], p["gridPos"] = id, map[string]any{"x": x, "y": y, "w": width, "h": height}
		panels, id = append(panels, p), id+1
	}
	for _, r := range b.rows {
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
		"uid": b.uid, "title": b.title, "tags": []string{"holdfast"}, "schemaVersion": 39, "version": 1,
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

// fields defines the meaning of values: yes is green and no is red, for instance,
// each also in words.
func (p panel) fields() map[string]any {
	out := map[string]any{"noValue": "nothing"}
	value := func(text, colour string, index int) map[string]any {
		return map[string]any{"text": text, "color": colour, "index": index}
	}
	switch p.unit {
	case "yesno":
		out["mappings"] = []any{map[string]any{"type": "value", "options": map[string]any{
			"1": value("yes", "green", 0), "0": value("no", "red", 1), "-1": value("not known", "orange", 2),
		}}}
	case "waits": // what nobody is to worry about while it is not so
		out["mappings"] = []any{map[string]any{"type": "value", "options": map[string]any{"1": value("yes", "orange", 0), "0": value("no", "green", 1)}}}
	case "until": // the seconds until something is late
		out["thresholds"] = map[string]any{"mode": "absolute", "steps": []any{
			map[string]any{"color": "red", "value": nil}, map[string]any{"color": "green", "value": 0},
		}}
		out["unit"] = "s"
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
