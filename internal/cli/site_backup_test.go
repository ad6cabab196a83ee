package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAMoveAndASecondFamilyAreAnnouncedOnceTheSiteHasABackup: the one it had is five hours old.
func TestAMoveAndASecondFamilyAreAnnouncedOnceTheSiteHasABackup(t *testing.T) {
	const why = "the newest good backup is older than 4 hours"
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for which, begins := range map[string]struct {
		annotation string
		announce   func(*moveAccess, backupFirst, Streams) error
	}{
		"a move": {kube.ReaddressAnnotation, func(a *moveAccess, b backupFirst, s Streams) error {
			m := &move{readdressFlags: readdressFlags{yes: true, timeout: time.Second}, streams: s, plan: readdress.Plan{ID: "m1"}, access: a, backup: b}
			if err := m.announce(t.Context()); command.ExitCode(err) != command.ExitAttention { // its hosts never answer here
				return err
			}
			return nil
		}},
		"a second family": {kube.DualStackAnnotation, func(a *moveAccess, b backupFirst, s Streams) error {
			d := &secondFamily{streams: s, plan: dualstack.Plan{ID: "d1"}, access: a, backup: b}
			return d.announce(t.Context())
		}},
	} {
		for sentence, c := range map[string]struct {
			without, taken bool
			cause          error
			refused        string
		}{
			"one is taken":      {taken: true},
			"none is wanted":    {without: true},
			"none can be taken": {cause: errors.New("no room"), refused: "refused, nothing was changed: " + why + ", and none was taken: no room: holdfast backup now, or --without-backup"},
		} {
			host := state.Node{Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host.Name, Labels: host.Labels, Annotations: toldOfBackup(host, time.Now().Add(-5*time.Hour)).Annotations}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, node).Build()
			var out strings.Builder
			access, took := &moveAccess{api}, false
			first := backupFirst{without: c.without, out: &out, take: func(ctx context.Context) error {
				took = true
				if c.cause != nil {
					return c.cause
				}
				node.Annotations[backup.Annotation] = backedUp(host).Annotations[backup.Annotation]
				return api.Update(ctx, node)
			}}
			err := begins.announce(access, first, Streams{Out: &out, Err: &out})
			infra, unread := access.infrastructure(t.Context())
			if unread != nil {
				t.Fatal(unread)
			}
			if took != (c.taken || c.cause != nil) {
				t.Errorf("%s, %s: a backup was taken: %t", which, sentence, took)
			}
			if announced := infra.Annotations[begins.annotation] != ""; announced != (c.refused == "") {
				t.Errorf("%s, %s: announced: %t", which, sentence, announced)
			}
			switch {
			case c.refused == "" && err != nil, c.refused != "" && (err == nil || err.Error() != c.refused || command.ExitCode(err) != command.ExitRefused):
				t.Errorf("%s, %s: %v, want %q", which, sentence, err, c.refused)
			}
		}
	}
}
