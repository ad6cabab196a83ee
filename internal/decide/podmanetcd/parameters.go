// Package podmanetcd decides what the resource agent ocf:holdfast:podman-etcd
// returns to Pacemaker: its parameters, its meta-data, and the exit code of each
// action from the report of the host's etcd keeper.
package podmanetcd

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// parameter is one line of the table. The meta-data is generated from the table,
// and the environment is read with it.
type parameter struct {
	name     string
	short    string
	long     string
	kind     string // string or integer, in the words of the OCF standard
	standard string // the default; empty for none
	required bool
	set      func(*state.EtcdParameters, string) error
}

var usual = state.UsualEtcdParameters()

var parameters = []parameter{
	{
		name: "node_ip_map", short: "Both nodes and their addresses", kind: "string", required: true,
		long: "The two nodes and the address at which etcd's peer reaches each: name:address;name:address. " +
			"What follows the first colon is the address, so IPv6 needs no brackets.",
		set: func(p *state.EtcdParameters, v string) (err error) { p.Nodes, err = nodeMap(v); return err },
	},
	{
		name: "pod_manifest", short: "Pod manifest of etcd", kind: "string",
		standard: usual.PodManifest,
		long:     "The manifest that the cluster renders for this node: image, arguments, volumes. etcd is restarted in place when it changes.",
		set:      func(p *state.EtcdParameters, v string) (err error) { p.PodManifest, err = absolute(v); return err },
	},
	{
		name: "backup_location", short: "Folder for backups of given-up data directories", kind: "string", standard: usual.BackupDir,
		long: "Before a data directory is emptied so that this node can join again, it is saved here. A backup that fails never delays the join.",
		set:  func(p *state.EtcdParameters, v string) (err error) { p.BackupDir, err = absolute(v); return err },
	},
	{
		name: "max_backup_snapshots", short: "Number of backups that are kept", kind: "integer", standard: strconv.Itoa(usual.Backups),
		long: "The oldest are deleted first. 0 saves none.",
		set:  func(p *state.EtcdParameters, v string) (err error) { p.Backups, err = number(v, 0, 100); return err },
	},
	{
		name: "oom", short: "oom-score-adj of etcd", kind: "integer", standard: strconv.Itoa(usual.OOM),
		long: "How readily the kernel kills etcd when memory is short, from -1000 (never) to 1000. It is left as it is if the host may not lower it.",
		set:  func(p *state.EtcdParameters, v string) (err error) { p.OOM, err = number(v, -1000, 1000); return err },
	},
}

// Parse reads the parameters that Pacemaker passes, by name, and reports every
// mistake at once.
func Parse(given map[string]string) (state.EtcdParameters, error) {
	var out state.EtcdParameters
	var mistakes []error
	for _, p := range parameters {
		value, ok := given[p.name]
		if !ok || value == "" {
			value = p.standard
		}
		if value == "" && p.required {
			mistakes = append(mistakes, fmt.Errorf("%s: required: %s", p.name, p.short))
			continue
		}
		if err := p.set(&out, value); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return out, errors.Join(mistakes...)
}

// Names lists the parameters.
func Names() []string {
	var out []string
	for _, p := range parameters {
		out = append(out, p.name)
	}
	return out
}

func nodeMap(v string) (map[string]netip.Addr, error) {
	out := map[string]netip.Addr{}
	var addresses []netip.Addr
	for entry := range strings.SplitSeq(strings.TrimSuffix(strings.ReplaceAll(v, " ", ""), ";"), ";") {
		name, text, _ := strings.Cut(entry, ":")
		a, err := netip.ParseAddr(strings.Trim(text, "[]"))
		switch {
		case name == "" || err != nil:
			return nil, fmt.Errorf("%q is not name:address", entry)
		case slices.Contains(addresses, a.Unmap()):
			return nil, fmt.Errorf("address %s is given twice", a)
		}
		addresses = append(addresses, a.Unmap())
		out[name] = a.Unmap()
	}
	if len(out) != 2 || len(addresses) != 2 {
		return nil, fmt.Errorf("names %d nodes, must name two", len(out))
	}
	return out, nil
}

func absolute(v string) (string, error) {
	if !path.IsAbs(v) {
		return "", fmt.Errorf("%q must be an absolute path", v)
	}
	return path.Clean(v), nil
}

func number(v string, low, high int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q must be a number from %d to %d", v, low, high)
	}
	return n, nil
}
