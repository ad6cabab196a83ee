package replace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Door answers hosts that ask to take the place of a lost one. The configuration server of
// the host that stays calls it.
type Door struct {
	Store replacement.Store
	// Cluster is the name from which the key of the two hosts is made.
	Cluster string
	// Manifest renders etcd's manifest for one of the two hosts.
	Manifest func(nodes []decide.Node, self string) ([]byte, error)
	Now      func() time.Time
}

// Ask writes down the request of a host. It answers what the host waits for or, once the plan
// has let the host in, with everything that the host needs. A refusal is an error.
func (d *Door) Ask(_ context.Context, name string, request []byte) (configserver.Entry, error) {
	plan, err := d.Store.Plan()
	if err != nil {
		return configserver.Entry{}, err
	}
	if plan == nil || plan.New.Name != name || plan.Stage.Over() && !d.entered(plan, request) {
		return d.strange(name, plan)
	}
	if plan.Stage.Over() {
		return d.open(plan)
	}
	var r replacement.Request
	if err := json.Unmarshal(request, &r); err != nil || r.Machine == (state.Machine{}) || r.Address == "" {
		return configserver.Entry{}, joining.Refusal("the host does not say which machine it is (the UUID or the serial number of its SMBIOS), or which address it has")
	}
	r.At = d.Now()
	if err := d.Store.PutRequest(r); err != nil {
		return configserver.Entry{}, err
	}
	if plan.Stage != replace.Joining || plan.Newcomer != (replace.Newcomer{Machine: r.Machine, Address: r.Address}) {
		return configserver.Entry{Needed: true, Waits: d.words()}, nil
	}
	return d.open(plan)
}

// entered reports whether a request is of the machine that a plan made whole: its installation was
// cut right after it entered. The secrets go once the cluster's copy of the plan is gone.
func (d *Door) entered(plan *replace.Plan, request []byte) bool {
	var r replacement.Request
	err := json.Unmarshal(request, &r)
	secrets, unread := d.Store.Secrets(plan.ID)
	return err == nil && unread == nil && plan.Stage == replace.Whole && plan.Ended == "" && secrets.Token != "" &&
		r.Machine != (state.Machine{}) && plan.Newcomer == replace.Newcomer{Machine: r.Machine, Address: r.Address}
}

// Out says that the plan on this host took a machine out of the place of a host; empty if it
// did not.
func (d *Door) Out(name string, machine state.Machine) (string, error) {
	plan, err := d.Store.Plan()
	if err != nil || plan == nil {
		return "", err
	}
	return plan.Ousts(name, machine), nil
}

// strange answers a host that no plan names.
func (d *Door) strange(name string, plan *replace.Plan) (configserver.Entry, error) {
	if plan != nil && !plan.Stage.Over() && plan.Shrinks {
		return configserver.Entry{}, joining.Refusal(fmt.Sprintf("this site goes on with one control plane, without %s: no other one is let in", plan.Old.Name))
	}
	if plan != nil && !plan.Stage.Over() {
		return configserver.Entry{}, joining.Refusal(fmt.Sprintf("%s takes the place of %s here, not %s", plan.New.Name, plan.Old.Name, name))
	}
	if plan != nil && plan.Lost(name) {
		return configserver.Entry{}, joining.Refusal(fmt.Sprintf("the plan on this host has ended: %s. Another one lets a machine in: holdfast host replace %s, on the host that stays", plan.Ended, name))
	}
	if !host.Exists(d.Store.Path(state.EtcdParametersPath)) {
		return configserver.Entry{}, nil
	}
	if plan != nil && plan.Grows && plan.Stage == replace.Aborted {
		return configserver.Entry{}, joining.Refusal(fmt.Sprintf("the plan for a second control plane was taken back: another one lets a machine in: %s, on %s", plan.Command(), plan.Survivor))
	}
	return configserver.Entry{}, joining.Refusal("both control planes of this site are set up: a host takes the place of a lost one by `holdfast host replace` on the host that stays")
}

// words returns the last words of the plan: what is done, or waited for.
func (d *Door) words() string {
	if doing, err := d.Store.Doing(); err == nil && doing != nil {
		return doing.Words
	}
	return "the plan of the replacement begins"
}

// open returns everything that the newcomer needs, once corosync.conf on this host lists it.
func (d *Door) open(plan *replace.Plan) (configserver.Entry, error) {
	conf, err := os.ReadFile(d.Store.Path(corosync.Path))
	if err != nil {
		return configserver.Entry{}, err
	}
	read, err := corosync.Parse(conf)
	if err != nil {
		return configserver.Entry{}, err
	}
	nodes := decide.CorosyncOf(read).Nodes
	if len(nodes) != 2 || nodes[0].Name != plan.New.Name && nodes[1].Name != plan.New.Name {
		return configserver.Entry{Needed: true, Waits: d.words()}, nil
	}
	secrets, err := d.Store.Secrets(plan.ID)
	if err != nil {
		return configserver.Entry{}, err
	}
	manifest, err := d.Manifest(nodes, plan.New.Name)
	if err != nil {
		return configserver.Entry{}, err
	}
	in := decide.Input{Cluster: d.Cluster, Nodes: nodes, Self: plan.New.Name, Token: secrets.Token, Manifest: string(manifest)}
	text, err := json.Marshal(in)
	if err != nil {
		return configserver.Entry{}, err
	}
	return configserver.Entry{Needed: true, Input: text, Conf: conf}, nil
}
