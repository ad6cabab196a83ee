package rotation

import (
	"bytes"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestARotationThatIsUnderWayIsAMetricAndInTheNode(t *testing.T) {
	c := newCluster(t, 2)
	h := c.hosts[0]
	h.Gauge = &Gauge{}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(h.Gauge); err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	look := func(w rotation.Wish) (late map[string]float64, said rotation.Report) {
		t.Helper()
		c.secret = map[string][]byte{string(rotation.FrontProxyCA): []byte(w.String())}
		if w.Phase == "" {
			c.secret = nil
		}
		if _, err := h.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		late = map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				late[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return late, state.ParseAnnotation[rotation.Reports](c.nodes[0].Annotations[state.AnnotationTrust]).Value.Authorities[rotation.FrontProxyCA]
	}
	if late, said := look(rotation.Wish{}); len(late) != 0 || !said.Began.IsZero() || !said.Late.IsZero() {
		t.Errorf("without a rotation: %v, %+v", late, said)
	}
	late, said := look(rotation.Wish{Phase: rotation.Trust, Salt: bytes.Repeat([]byte{1}, 32), Began: began, Turn: "cp-2"})
	want := began.Add(2 * time.Hour)
	if len(late) != 1 || late["holdfast_authority_rotation_late_timestamp_seconds front-proxy-ca"] != float64(want.Unix()) || !said.Began.Equal(began) || !said.Late.Equal(want) {
		t.Errorf("%v, %+v", late, said)
	}
	if late, said := look(rotation.Wish{}); len(late) != 0 || !said.Late.IsZero() {
		t.Errorf("afterwards: %v, %+v", late, said)
	}
}
