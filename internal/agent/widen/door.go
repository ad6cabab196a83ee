package widen

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/joining"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Door answers the host that asks to be the third control plane. The configuration servers of both
// hosts call it; the one that does not carry the plan passes the question on.
type Door struct {
	Store replacement.Store
	Files records.Files
	Host  string // this host
	// Pod renders the file from which kubelet runs etcd of one of several members.
	Pod func(self string, members []decide.Node) ([]byte, error)
	// Relay asks the host at an address, in the name of the host that asks.
	Relay func(ctx context.Context, carrier netip.Addr, own jointoken.Claims, request []byte) (configserver.Entry, error)
	Now   func() time.Time
}

// Ask answers with what the host waits for and, once etcd lists its member, with the file from which
// its kubelet runs etcd. It does not know when the host votes: the host asks its own etcd. mine is false
// if no plan is about that host. A refusal is an error.
func (d *Door) Ask(ctx context.Context, own jointoken.Claims, request []byte) (entry configserver.Entry, mine bool, err error) {
	plan, err := d.Store.WidenPlan()
	if err != nil || plan == nil || plan.Stage.Over() {
		return configserver.Entry{}, false, err
	}
	if why := plan.Refuses(own.Host); why != "" {
		return configserver.Entry{}, true, joining.Refusal(why)
	}
	nodes, err := nodesOf(d.Files, *plan)
	if err != nil {
		return configserver.Entry{}, true, err
	}
	if plan.Survivor != d.Host {
		carrier := slices.IndexFunc(nodes, func(n decide.Node) bool { return n.Name == plan.Survivor })
		if carrier < 0 {
			return configserver.Entry{}, true, fmt.Errorf("the address of %s, which carries the plan, is not known on this host", plan.Survivor)
		}
		address, err := netip.ParseAddr(nodes[carrier].Address)
		if err != nil {
			return configserver.Entry{}, true, err
		}
		entry, err := d.Relay(ctx, address, own, request)
		return entry, true, err
	}
	entry, err = d.open(*plan, nodes, request)
	return entry, true, err
}

func (d *Door) open(plan widen.Plan, nodes []decide.Node, request []byte) (configserver.Entry, error) {
	var r replacement.Request
	if err := json.Unmarshal(request, &r); err != nil || r.Machine == (state.Machine{}) || r.Address == "" {
		return configserver.Entry{}, joining.Refusal("the host does not say which machine it is (the UUID or the serial number of its SMBIOS), or which address it has")
	}
	r.At = d.Now()
	if err := d.Store.PutRequest(r); err != nil {
		return configserver.Entry{}, err
	}
	entry := configserver.Entry{Needed: true, Waits: d.words()}
	if !plan.Opens(r.Installed()) {
		return entry, nil
	}
	var err error
	entry.Pod, err = d.Pod(plan.New.Name, nodes)
	return entry, err
}

// words returns the last words of the plan: what is done, or waited for.
func (d *Door) words() string {
	if doing, err := d.Store.WidenDoing(); err == nil && doing != nil {
		return doing.Words
	}
	return "the plan for a third control plane begins"
}

// nodesOf returns the three hosts of a plan, sorted by name.
func nodesOf(files records.Files, p widen.Plan) ([]decide.Node, error) {
	parameters, err := files.Parameters()
	if err != nil {
		return nil, err
	}
	if !parameters.Known || len(parameters.Value.Nodes) != 2 {
		return nil, fmt.Errorf("the addresses of %s and %s are not known on this host", p.Survivor, p.Peer)
	}
	out := []decide.Node{{Name: p.New.Name, Address: p.New.Address}}
	for name, address := range parameters.Value.Nodes {
		out = append(out, decide.Node{Name: name, Address: address.String()})
	}
	slices.SortFunc(out, func(a, b decide.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
