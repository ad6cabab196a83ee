package cli

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	synctest.Test(t, func(t *testing.T) {
		old := time.Now().Add(-5 * time.Hour)
		const why = "refused, nothing was changed: the newest good backup is older than 4 hours: holdfast backup now, or --without-backup"

		site := newCASite(t)
		for i := range site.nodes {
			site.nodes[i] = toldOfBackup(site.nodes[i], old)
		}
		for _, dry := range []bool{true, false} {
			_, _, err := site.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.dryRun = dry })
			if codeOf(err) != command.ExitRefused || err.Error() != why || len(site.phases) > 0 {
				t.Errorf("dry run %t: %v, %v", dry, err, site.phases)
			}
		}
		if _, _, err := site.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.withoutBackup = true }); err != nil {
			t.Errorf("without one: %v", err)
		}

		c := newKeyCluster()
		for i := range c.nodes {
			c.nodes[i] = toldOfBackup(c.nodes[i], old)
		}
		if _, _, err := c.rotate(t, time.Hour); codeOf(err) != command.ExitRefused || err.Error() != why || len(c.puts) > 0 {
			t.Errorf("%v, %v", err, c.puts)
		}
	})
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
