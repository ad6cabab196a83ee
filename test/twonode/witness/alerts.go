package witness

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// apart is the shortest break between two samples that ends an alert: an
// evaluation may be late.
const apart = 3 * every

// times joins the samples of alerts: an alert that is pending and then fires is
// present all the time.
func times(list []series) []Alert {
	samples, labels := map[string][]time.Time{}, map[string]map[string]string{}
	for _, s := range list {
		own := maps.Clone(s.Metric)
		for _, l := range []string{"__name__", "alertstate", "severity", "alertname"} {
			delete(own, l)
		}
		parts := []string{s.Metric["alertname"]}
		for _, l := range slices.Sorted(maps.Keys(own)) {
			parts = append(parts, l+"="+own[l])
		}
		key := strings.Join(parts, "\x00")
		labels[key] = own
		for _, v := range s.Values {
			if at, ok := v[0].(float64); ok {
				samples[key] = append(samples[key], time.UnixMilli(int64(at*1000)))
			}
		}
	}
	var out []Alert
	for _, key := range slices.Sorted(maps.Keys(samples)) {
		name, _, _ := strings.Cut(key, "\x00")
		for _, span := range spans(samples[key]) {
			out = append(out, Alert{Name: name, Labels: labels[key], From: span[0], Until: span[1]})
		}
	}
	slices.SortStableFunc(out, func(a, b Alert) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name)) })
	return out
}

// spans returns the spans of samples without a break.
func spans(at []time.Time) [][2]time.Time {
	slices.SortFunc(at, time.Time.Compare)
	var out [][2]time.Time
	for _, t := range at {
		if n := len(out); n > 0 && t.Sub(out[n-1][1]) <= apart {
			out[n-1][1] = t
			continue
		}
		out = append(out, [2]time.Time{t, t})
	}
	return out
}

// lasts is the duration from which on an alert counts: a third of what the
// rules demand, because a scenario is over before a person would be woken.
const lasts = 10 * time.Second

// Lasting returns the alerts that lasted.
func Lasting(list []Alert) []Alert {
	var out []Alert
	for _, a := range list {
		if a.Until.Sub(a.From) >= lasts {
			out = append(out, a)
		}
	}
	return out
}

// Begun returns the alerts that were not present before a moment. An alert that
// was present and was interrupted proves nothing.
func Begun(list []Alert, at time.Time) []Alert {
	var out []Alert
	for _, a := range list {
		before := slices.ContainsFunc(list, func(o Alert) bool { return o.Name == a.Name && maps.Equal(o.Labels, a.Labels) && !o.From.After(at) })
		if !before {
			out = append(out, a)
		}
	}
	return out
}
