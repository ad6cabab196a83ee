package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/hostreport"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// incidents adds the incidents that hosts show in the API. From their journals
// it adds facts that only they know: their records and the results of their
// fences.
func (a *API) incidents(ctx context.Context, t *answers) error {
	data, err := configMaps{a.Reader}.ConfigMaps(ctx, incident.Namespace, incident.Label)
	if err != nil {
		return err
	}
	hosts, _, err := incident.Everyone(ctx, held(data))
	if err != nil {
		return err
	}
	l, err := incident.InCluster(ctx, held(data))
	if err != nil {
		return err
	}
	t.with(func(f *standing.Facts) {
		f.Incidents = hostreport.LastIncidents(standing.IncidentsOf(l.Incidents), saidAPI, t.now)
		for name, p := range hosts {
			f.Hosts = merged(append(f.Hosts, noted(name, p.Records)...))
		}
	})
	return nil
}

// held holds ConfigMaps that were already read.
type held map[string]map[string]string

// ConfigMaps implements incident.API.
func (h held) ConfigMaps(context.Context, string, string) (map[string]map[string]string, error) {
	return h, nil
}

// noted returns the facts in a host's journal about the host itself and about
// the hosts that it fenced.
func noted(name string, journal []decide.Record) []standing.Host {
	from := name + ", in the API"
	var out []standing.Host
	for _, r := range journal {
		switch r.Kind {
		case decide.Recorded:
			own := state.EtcdRecord{State: r.State, Seq: r.Seq, Written: r.At}
			out = append([]standing.Host{{Name: name, ControlPlane: true, Record: standing.Know(own, from, r.At)}}, out...)
		case decide.Fenced:
			f := standing.Fence{At: r.At, By: name, Off: r.OK, Took: r.Took, Why: firstLine(r.Why)}
			out = append(out, standing.Host{Name: r.Target, ControlPlane: true, LastFence: standing.Know(f, from, r.At)})
		case decide.Booted, decide.Members, decide.Decides, decide.Wished, decide.AsksFence, decide.Confirmed, decide.Restarted,
			decide.Holds, decide.API, decide.Tainted, decide.Untainted, decide.Pods, decide.Wrote, decide.Plans, decide.Missed:
		}
	}
	return out
}

// configMaps reads the ConfigMaps of incidents without a cache.
type configMaps struct{ client.Reader }

// ConfigMaps implements incident.API.
func (c configMaps) ConfigMaps(ctx context.Context, namespace, label string) (map[string]map[string]string, error) {
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{label}); err != nil {
		return nil, fmt.Errorf("read the incidents: %w", err)
	}
	out := map[string]map[string]string{}
	for _, m := range list.Items {
		out[m.Name] = m.Data
	}
	return out, nil
}
