package clusterversion

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

// TestMistakesOfAClusterVersionAreNamedAndDoNotCount.
func TestMistakesOfAClusterVersionAreNamedAndDoNotCount(t *testing.T) {
	v := configv1.ClusterVersion{
		ObjectMeta: metav1.ObjectMeta{UID: "ab12cd34-x", Generation: 7, Annotations: map[string]string{
			annotation.SoakOf: "long", annotation.OverridesOf: `[{"gate":"backup","reason":"r"},{"gate":1}]`, annotation.SourcesOf: "[", annotation.CommitOf: "other", annotation.PausedBy: "so",
		}},
		Spec: configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Image: "a:v1"}},
	}
	w := WishOf(v, cluster.Record{Upgrade: "ab12cd34-7"})
	if len(w.Mistakes) != 4 || w.Release != "" || len(w.Overrides) > 0 || w.Start || w.Commit || w.Soak != annotation.DefaultSoak || w.Paused != "so" || w.Upgrade != "ab12cd34-7" {
		t.Errorf("%+v", w)
	}
	v.Annotations = map[string]string{annotation.SoakOf: "off", annotation.CommitOf: "ab12cd34-7", annotation.SourcesOf: `{"folder":"/mnt"}`}
	if w := WishOf(v, cluster.Record{Upgrade: "ab12cd34-7"}); !w.SoakOff || !w.Commit || w.Sources.Folder != "/mnt" || len(w.Mistakes) != 1 {
		t.Errorf("%+v", w)
	}
}
