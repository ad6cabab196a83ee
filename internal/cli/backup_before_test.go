package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	decide "github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// backedUp returns a node whose host tells of a good backup that it took now.
func backedUp(n state.Node) state.Node { return toldOfBackup(n, time.Now()) }

func toldOfBackup(n state.Node, taken time.Time) state.Node {
	text, err := backup.Summary{Kept: []backup.Brief{{ID: backup.Ask(taken, ""), Taken: taken, Good: true}}}.Text()
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	maps.Copy(all, n.Annotations)
	all[backup.Annotation] = text
	n.Annotations = all
	return n
}

func TestARotationBeginsOnlyWithAYoungGoodBackup(t *testing.T) {
	const why = "the newest good backup is older than 4 hours"
	aged := func(nodes []state.Node) {
		for i := range nodes {
			nodes[i] = toldOfBackup(nodes[i], time.Now().Add(-5*time.Hour))
		}
	}
	for name, c := range map[string]struct {
		take    func(nodes []state.Node) error
		refused string
	}{
		"none could be taken": {
			func([]state.Node) error { return errors.New("cp-1 made no good backup: no room") },
			"refused, nothing was changed: " + why + ", and none was taken: cp-1 made no good backup: no room: holdfast backup now, or --without-backup",
		},
		"none that counts": {func([]state.Node) error { return nil }, "refused, nothing was changed: " + why + ": holdfast backup now, or --without-backup"},
		"one was taken":    {func(nodes []state.Node) error { nodes[0] = backedUp(nodes[0]); return nil }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			site := newCASite(t)
			aged(site.nodes)
			site.take = func(context.Context) error { return c.take(site.nodes) }
			_, said, err := site.rotate(decide.FrontProxyCA, "", nil)
			if !strings.Contains(said, why+": it takes one first\n") {
				t.Errorf("%s: it says %q", name, said)
			}
			k := newKeyCluster()
			aged(k.nodes)
			k.take = func(context.Context) error { return c.take(k.nodes) }
			_, saidOfKeys, wrong := k.rotate(t, time.Hour)
			if !strings.Contains(saidOfKeys, why+": it takes one first\n") {
				t.Errorf("%s: it says %q", name, saidOfKeys)
			}
			if c.refused == "" {
				if err != nil || wrong != nil || len(site.phases) == 0 || len(k.puts) == 0 {
					t.Errorf("%s: %v, %v, %v, %v", name, err, wrong, site.phases, k.puts)
				}
				return
			}
			if codeOf(err) != command.ExitRefused || err.Error() != c.refused || len(site.phases) > 0 {
				t.Errorf("%s: %v, %v", name, err, site.phases)
			}
			if codeOf(wrong) != command.ExitRefused || wrong.Error() != c.refused || len(k.puts) > 0 {
				t.Errorf("%s: %v, %v", name, wrong, k.puts)
			}
		})
	}
}

func TestADryRunOfARotationTakesNoBackupAndAPersonMayGoWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newCASite(t)
		for i := range site.nodes {
			site.nodes[i] = toldOfBackup(site.nodes[i], time.Now().Add(-5*time.Hour))
		}
		site.take = func(context.Context) error { t.Error("it takes one"); return nil }
		_, said, err := site.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.dryRun = true })
		if err != nil || !strings.Contains(said, "it would take one first") || len(site.phases) > 0 {
			t.Errorf("dry run: %v, %q, %v", err, said, site.phases)
		}
		if _, _, err := site.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.withoutBackup = true }); err != nil || len(site.phases) == 0 {
			t.Errorf("without one: %v", err)
		}
	})
}

// answering is a cluster whose cp-1 answers each wish for a backup at once.
func answering(t *testing.T, failed string) client.Client {
	t.Helper()
	plain := hostSite(t)
	writesNode(t, plain, "cp-1", func(n *corev1.Node) {
		n.Annotations[backup.Annotation] = toldOfBackup(state.Node{}, time.Now().Add(-5*time.Hour)).Annotations[backup.Annotation]
	})
	return interceptor.NewClient(plain, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if err := c.Patch(ctx, o, p, opts...); err != nil {
			return err
		}
		return playedHost{c: c, name: "cp-1", failed: failed}.answer(ctx, o.GetAnnotations()[backup.WantedOf])
	}})
}

func TestACommandThatBeginsWithABackupFollowsIt(t *testing.T) {
	for failed, want := range map[string]string{"": "", "no room": "cp-1 made no good backup: no room"} {
		c := answering(t, failed)
		f := backupNowFlags{reason: "before ca rotate etcd-ca", timeout: time.Minute}
		h, err := f.take(t.Context(), c, Streams{Out: io.Discard, Err: io.Discard})
		if want == "" && (err != nil || h.Answer.ID == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", failed, h, err)
		}
		if wish := nodeOf(t, c, "cp-1").Annotations[backup.WantedOf]; backup.ReadAsked(wish).Reason != f.reason {
			t.Errorf("the wish is %q", wish)
		}
	}
}

func TestARotationThatHasBegunGoesOnWithoutABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeyCluster()
		c.lag = 1000 // the hosts never load the key
		if _, _, err := c.rotate(t, time.Minute); err == nil || len(c.puts) != 1 {
			t.Fatalf("%v, %v", err, c.puts)
		}
		c.lag = 3
		for i := range c.nodes {
			delete(c.nodes[i].Annotations, backup.Annotation)
		}
		if _, _, err := c.rotate(t, time.Hour); err != nil || !strings.HasSuffix(c.puts[len(c.puts)-1], " 2 2") {
			t.Errorf("%v, %v", err, c.puts)
		}
	})
}
