package replace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
)

// A look takes seconds. In them the command may take the order back and tell a person that nothing was
// begun, or write another one.
func TestNoPlanBeginsByAnOrderThatIsGoneOrAnotherOne(t *testing.T) {
	other := order
	other.Wish.Accepts.KeepAccount = true
	for sentence, meanwhile := range map[string]func(replacement.Store) error{
		"taken back": func(s replacement.Store) error { return s.DropOrder() },
		"changed":    func(s replacement.Store) error { return s.PutOrder(other) },
	} {
		s := newSite()
		a := s.agent(t.TempDir())
		if err := a.Store.PutOrder(order); err != nil {
			t.Fatal(err)
		}
		look, looks := a.World.Look, 0
		a.World.Look = func(ctx context.Context, job Job) replace.Facts {
			if looks++; looks == 1 {
				if err := meanwhile(a.Store); err != nil {
					t.Fatal(err)
				}
			}
			return look(ctx, job)
		}
		if _, err := a.Step(t.Context()); !errors.Is(err, errOrderChanged) {
			t.Errorf("%s: %v", sentence, err)
		}
		if p, err := a.Store.Plan(); err != nil || p != nil || a.Store.HasSecrets() || len(s.log) > 0 {
			t.Errorf("%s: %+v, %v, %v", sentence, p, err, s.log)
		}
	}
}

// planned is an agent with a plan of a stage, and the secrets of it.
func planned(t *testing.T, s *site, stage replace.Stage) *Agent {
	t.Helper()
	a := s.agent(t.TempDir())
	p := replace.Begin(s.look(t.Context(), Job{}), order.Wish)
	p.Stage, s.lockedBy = stage, p.ID
	if err := errors.Join(a.Store.PutOrder(order), a.Store.PutPlan(p), a.makeSecrets(p.ID)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAnOrderToTakeThePlanBackThatIsTooLateIsDroppedAndItsAccountsStay(t *testing.T) {
	a := planned(t, newSite(), replace.Retired)
	late := order
	late.Wish.Abort = true
	if err := a.Store.PutOrder(late); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Store.Order(); err != nil || o == nil || o.Wish.Abort || o.Device.Password != order.Device.Password {
		t.Errorf("%+v, %v", o, err)
	}
	late.Device, late.Own = order.Device, replacement.Account{}
	late.Device.Address = "" // the command has found no order, and wrote one of a wish alone
	if err := errors.Join(a.Store.PutOrder(late), a.Store.ClearAbort(&late)); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Store.Order(); err != nil || o != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if err := errors.Join(a.Store.PutOrder(order), a.Store.ClearAbort(&late)); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Store.Order(); err != nil || o == nil {
		t.Errorf("an order that was written meanwhile: %+v, %v", o, err)
	}
}

func TestSecretsThatSomebodyRemovedAreMadeAgainUntilCorosyncHasTheirKey(t *testing.T) {
	for _, stage := range []replace.Stage{replace.Planned, replace.Retired} {
		s := newSite()
		a := planned(t, s, stage)
		if err := a.Store.DropSecrets(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Step(t.Context()); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
		p, err := a.Store.Plan()
		if err != nil || p == nil || !p.Reloaded || p.Remade != (stage == replace.Retired) {
			t.Errorf("%s: %+v, %v", stage, p, err)
		}
		if v, err := a.Store.Secrets(order.Wish.ID); err != nil || v.Token == "" || v.Token != s.key || !bytes.Equal(v.FormerJoinKey, inForce) {
			t.Errorf("%s: the key of Corosync is not that of the secrets: %v", stage, err)
		}
	}
}

func TestSecretsThatAreMissingLaterAreNamedWithTheirFile(t *testing.T) {
	s := newSite()
	a := planned(t, s, replace.Retired)
	p, err := a.Store.Plan()
	if err != nil {
		t.Fatal(err)
	}
	p.Reloaded = true
	if err := errors.Join(a.Store.PutPlan(*p), os.Remove(a.Store.Path(replacement.SecretsPath))); err != nil {
		t.Fatal(err)
	}
	_, err = a.Step(t.Context())
	if err == nil || !strings.Contains(err.Error(), replacement.SecretsPath) || strings.Contains(err.Error(), "take the plan back") || a.Store.HasSecrets() {
		t.Error(err)
	}
}
