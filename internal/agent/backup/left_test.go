package backup

import (
	"slices"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
)

// The host forgets a backup that it removed, also where its target keeps the copy.
func TestCopiesThatATargetKeepsAreToldUntilARunRemovesThem(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *", RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: 1}}}
	w.secret = secretText
	for _, left := range [][]string{nil, {"20260309T030000Z-cp-1 at nas: permission denied"}, nil} {
		w.left = left
		w.run(5 * time.Hour)
		if s := w.summary(); !slices.Equal(s.Left, left) || len(s.Kept) != 1 {
			t.Errorf("it tells of %q, want %q: %d are kept", s.Left, left, len(s.Kept))
		}
		w.restart() // the journal has them
	}
}
