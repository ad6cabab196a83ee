package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/incident"
)

// lastShown is how many of the last incidents are shown.
const lastShown = 3

// incidents are those that hosts show in the API.
func (a *API) incidents(ctx context.Context, t *told) error {
	l, err := incident.InCluster(ctx, configMaps{a.Reader})
	if err != nil {
		return err
	}
	t.with(func(f *standing.Facts) { f.Incidents = last(l, saidAPI, t.now) })
	return nil
}

// configMaps reads incidents without a cache.
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

// incidents are those that a host keeps in files.
func (t *hearing) incidents() {
	l, err := incident.OnHost(t.host.file(incident.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.limit(err)
		return
	}
	t.facts.Incidents = last(l, t.name, t.now)
}

// last are the newest incidents, unknown where there are none.
func last(l incident.List, from string, now time.Time) standing.Seen[[]standing.Incident] {
	if len(l.Incidents) == 0 {
		return standing.Seen[[]standing.Incident]{}
	}
	var out []standing.Incident
	for _, i := range l.Incidents[:min(lastShown, len(l.Incidents))] {
		out = append(out, standing.Incident{ID: i.ID, At: i.Start, Kind: string(i.State), Summary: i.Title})
	}
	return standing.Know(out, from, now)
}
