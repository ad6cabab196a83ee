// Package incident stores reports of incidents where people find them: in files
// of the host, and in one ConfigMap per host. Only the agent of that host
// writes both. Package decide/incident decides what a report says.
package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

const (
	// Dir is the folder of a host's reports, with one file each.
	Dir = "/var/lib/holdfast/incidents"
	// Namespace is the namespace of the hosts' ConfigMaps.
	Namespace = decide.ConfigMapNamespace
	// Label is set on each of them, and names its host.
	Label = "holdfast.io/incidents"
)

// Kept is the number of reports that a host keeps. published is the number of
// the newest ones that it shows in the API, publishedRecords that of records.
const (
	Kept             = 50
	published        = 10
	publishedRecords = 300
	// limit bounds a ConfigMap, in bytes: half of what the API accepts.
	limit = 512 << 10
)

// The keys of a ConfigMap. KeyIncidents is the one with all reports that its host has, a
// list of incident.Incident.
const (
	keyJournal   = "journal.json"
	KeyIncidents = "incidents.json"
)

// ConfigMap returns the name of a host's ConfigMap.
func ConfigMap(host string) string { return decide.ConfigMapPrefix + host }

// Published holds what a host publishes in the API: its own records, and all
// reports that it has.
type Published struct {
	Records   []decide.Record
	Incidents []decide.Incident
}

// Encode returns the data of the ConfigMap. If it is too long, Encode leaves
// out the oldest entries.
func (p Published) Encode() (map[string]string, error) {
	records := decide.Newest(p.Records, publishedRecords)
	list := p.Incidents[max(0, len(p.Incidents)-published):]
	for {
		journal, err := json.Marshal(orEmpty(records))
		if err != nil {
			return nil, err
		}
		reports, err := json.Marshal(orEmpty(list))
		if err != nil {
			return nil, err
		}
		if len(journal)+len(reports) <= limit || len(list) == 0 && len(records) < 2 {
			return map[string]string{keyJournal: string(journal), KeyIncidents: string(reports)}, nil
		}
		if len(list) > 1 {
			list = list[1:]
			continue
		}
		list, records = nil, decide.Newest(records, len(records)/2)
	}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Decode reads what Encode wrote.
func Decode(data map[string]string) (Published, error) {
	var p Published
	err := errors.Join(decode(data[keyJournal], &p.Records), decode(data[KeyIncidents], &p.Incidents))
	p.Incidents = sound(p.Incidents)
	return p, err
}

func decode(text string, into any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// sound removes entries that are no reports: others may write into a ConfigMap.
func sound(list []decide.Incident) []decide.Incident {
	return slices.DeleteFunc(list, func(i decide.Incident) bool { return !soundID(i.ID) || len(i.Failures) == 0 || len(i.Journals) == 0 })
}

// soundID reports whether an id may be used as a file name.
func soundID(id string) bool {
	return id != "" && len(id) < 100 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && id[0] != '.'
}

// API is the part of the API that this package reads.
type API interface {
	ConfigMaps(ctx context.Context, namespace, label string) (map[string]map[string]string, error)
}

var _ API = (*kube.Client)(nil)

// Everyone returns what each host shows in the API, by host. It reports data of
// a host that it cannot parse, and still returns the other hosts.
func Everyone(ctx context.Context, api API) (map[string]Published, []string, error) {
	all, err := api.ConfigMaps(ctx, Namespace, Label)
	if err != nil {
		return nil, nil, err
	}
	out, limits := map[string]Published{}, []string(nil)
	for name, data := range all {
		p, err := Decode(data)
		if err != nil {
			limits = append(limits, fmt.Sprintf("ConfigMap %s/%s cannot be parsed: %v", Namespace, name, err))
		}
		out[strings.TrimPrefix(name, ConfigMap(""))] = p
	}
	slices.Sort(limits)
	return out, limits, nil
}

// List holds the known incidents, the newest first.
type List struct {
	Incidents []decide.Incident `json:"incidents"`
	// Source says where they come from: the API, or a host's files.
	Source string `json:"source"`
	// Limits lists what could not be seen, one sentence each.
	Limits []string `json:"limits,omitempty"`
}

// InCluster returns the incidents that the hosts show in the API, each once. It
// combines the journals of all hosts.
func InCluster(ctx context.Context, api API) (List, error) {
	hosts, limits, err := Everyone(ctx, api)
	if err != nil {
		return List{}, err
	}
	l := List{Source: "API", Limits: limits}
	if len(hosts) == 0 {
		l.Limits = append(l.Limits, "no host publishes incidents in the API: the agents of two-node control planes do so once they run")
	}
	var records []decide.Record
	lists := [][]decide.Incident{}
	for _, p := range hosts {
		records = append(records, p.Records...)
		lists = append(lists, p.Incidents)
	}
	l.Incidents = Newest(decide.Reports(records, lists...))
	return l, nil
}

// OnHost returns the reports that a host keeps in files.
func OnHost(dir string) (List, error) {
	l := List{Source: "files of this host"}
	list, problems, err := Files(dir)
	if err != nil {
		return l, err
	}
	l.Incidents, l.Limits = Newest(list), problems
	return l, nil
}

// Newest reverses the order, so that the newest comes first.
func Newest(list []decide.Incident) []decide.Incident {
	out := orEmpty(slices.Clone(list))
	slices.Reverse(out)
	return out
}

// Files reads the reports of a folder, the oldest first. It reports a file that
// it cannot parse, and still returns the others.
func Files(dir string) ([]decide.Incident, []string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, []string{dir + " does not exist: no incident was ever reported here"}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reports of incidents: %w", err)
	}
	var out []decide.Incident
	var problems []string
	for _, e := range entries {
		if !isReport(e.Name()) {
			continue
		}
		i, err := readFile(filepath.Join(dir, e.Name()))
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		out = append(out, i)
	}
	return decide.Reports(nil, out), problems, nil
}

// isReport distinguishes reports from other files in the folder.
func isReport(name string) bool {
	id, ok := strings.CutSuffix(name, ".json")
	return ok && soundID(id) && id[0] >= '0' && id[0] <= '9'
}

func readFile(path string) (decide.Incident, error) {
	var i decide.Incident
	b, err := os.ReadFile(path)
	if err != nil {
		return i, fmt.Errorf("report of an incident: %w", err)
	}
	if err := json.Unmarshal(b, &i); err != nil || len(sound([]decide.Incident{i})) == 0 {
		return i, fmt.Errorf("report of an incident %s cannot be parsed: %w", path, errors.Join(err, fs.ErrInvalid))
	}
	return i, nil
}

// Write replaces the reports in a folder by the newest of list, at most Kept.
// It writes only files that change, and removes the other reports.
func Write(dir string, list []decide.Incident) error {
	list = list[max(0, len(list)-Kept):]
	names := map[string]bool{}
	for _, i := range list {
		names[i.ID+".json"] = true
		if err := writeFile(filepath.Join(dir, i.ID+".json"), i); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reports of incidents: %w", err)
	}
	for _, e := range entries {
		if isReport(e.Name()) && !names[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("reports of incidents: %w", err)
			}
		}
	}
	return nil
}

// writeFile writes a report if it has changed. A report holds no secret, so
// everybody on the host may read it.
func writeFile(path string, i decide.Incident) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := host.WriteFileAtomic(path, data, 0o644); err != nil {
		return fmt.Errorf("report of an incident: %w", err)
	}
	return nil
}
