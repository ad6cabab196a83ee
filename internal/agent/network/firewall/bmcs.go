package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// namesPath is the file in which a host keeps the addresses of management controllers
// that have names. Without it each start of the agent would open them to pods until a
// name server has answered.
const namesPath = "/var/lib/holdfast/network/bmc-names.json"

// names holds the addresses of management controllers that have names.
type names struct {
	// found are the addresses, by name; nil until the file was read.
	found map[string][]netip.Addr
	// tried are the names that this run of the agent looked up.
	tried map[string]bool
	// unsaved is true while the file lacks what was found.
	unsaved bool
}

// bmcs returns the addresses of management controllers, and wakes the look for names
// that nobody has looked up. The caller holds the lock.
func (p *Reconciler) bmcs() []netip.Addr {
	p.recall()
	var out []netip.Addr
	for _, h := range p.bmcHosts() {
		a, err := netip.ParseAddr(h)
		if err == nil {
			out = append(out, a)
			continue
		}
		out = append(out, p.names.found[h]...)
		if !p.names.tried[h] {
			nudge(p.pokeLook)
		}
	}
	return out
}

// bmcHosts returns the names or addresses of management controllers: those of the site as
// it was installed, those by which this host fences, and those by which control planes say
// that they fence. A host that was replaced may have brought another one.
func (p *Reconciler) bmcHosts() []string {
	out := slices.Concat(p.BMCs, records.Files{Root: p.Root}.BMCs(), ports.Controllers(p.view))
	slices.Sort(out)
	return slices.Compact(out)
}

// resolve looks up the addresses of management controllers that have names, and
// reports whether it found them all. A name without addresses at the moment keeps
// those that it had.
func (p *Reconciler) resolve(ctx context.Context, hosts []string) bool {
	all := true
	for _, h := range hosts {
		if _, err := netip.ParseAddr(h); err == nil {
			continue
		}
		addresses, err := p.Resolve(ctx, h)
		if err != nil {
			addresses = nil
		}
		p.learn(h, addresses)
		all = all && len(addresses) > 0
	}
	return p.save() && all
}

// learn takes in the answer about a name.
func (p *Reconciler) learn(name string, addresses []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recall()
	p.names.tried[name] = true
	slices.SortFunc(addresses, netip.Addr.Compare) // name servers change the order
	if len(addresses) > 0 && !slices.Equal(p.names.found[name], addresses) {
		p.names.found[name], p.names.unsaved = addresses, true
		p.wake()
	}
}

// recall reads the names of an earlier run, once. An unreadable file counts as none: name
// servers have it all. The caller holds the lock.
func (p *Reconciler) recall() {
	if p.names.found != nil {
		return
	}
	p.names = names{found: map[string][]netip.Addr{}, tried: map[string]bool{}}
	data, err := os.ReadFile(p.path(namesPath))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(data, &p.names.found)
	}
	if err != nil {
		p.Logf("firewall: names of management controllers of an earlier run: %v", err)
	}
	if err != nil || p.names.found == nil {
		p.names.found = map[string][]netip.Addr{}
	}
}

// save writes what the file lacks, and reports whether it lacks nothing more. It does not
// hold the lock: a slow disk must not keep the table waiting.
func (p *Reconciler) save() bool {
	p.mu.Lock()
	unsaved := p.names.unsaved
	data, err := json.Marshal(p.names.found)
	p.mu.Unlock()
	if !unsaved {
		return true
	}
	if err == nil {
		_, err = host.WriteFiles(p.Root, []state.File{{Path: namesPath, Data: append(data, '\n')}})
	}
	if err != nil {
		p.Logf("firewall: keep the names of management controllers: %v", err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.unsaved = false // nobody else learns names
	return true
}
