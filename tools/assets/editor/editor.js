// The editor of a rule's text: what assets/js/editor.js builds it with, and nothing else of its packages.
//
// Its styles go to the document as constructed sheets: the console's policy takes no <style>, and asks for no exception.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSetBuilder, StateEffect, StateField, Transaction } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { StyleModule } from "style-mod";

const mounted = new Set();
StyleModule.mount = (root, modules) => {
  for (const each of [modules].flat()) {
    if (mounted.has(each)) continue;
    mounted.add(each);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(each.getRules());
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  }
};

// Classes of our own style, which has the colours of both themes.
const colours = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], class: "k" },
  { tag: [tags.string, tags.special(tags.string)], class: "v" },
  { tag: [tags.comment, tags.lineComment], class: "c" },
  { tag: [tags.number, tags.bool, tags.null], class: "n" },
]);

const setChanged = StateEffect.define();
const changedLine = Decoration.line({ class: "chg" });
const changedLines = StateField.define({
  create: () => Decoration.none,
  update(before, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setChanged)) continue;
      const builder = new RangeSetBuilder();
      const { doc } = transaction.state;
      for (const line of effect.value) if (line <= doc.lines) builder.add(doc.line(line).from, doc.line(line).from, changedLine);
      return builder.finish();
    }
    return before.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Tab indents until Escape was pressed; then it leaves, until something is typed or the editor is entered anew.
const leaving = [
  keymap.of([{ key: "Escape", run: (view) => { view.setTabFocusMode(true); return true; } }]),
  EditorView.updateListener.of((update) => {
    if (update.docChanged || (update.focusChanged && update.view.hasFocus)) update.view.setTabFocusMode(false);
  }),
];

/** An editor in `parent`; `changed` is told each text that a person wrote. */
export function editor(parent, text, label, description, changed) {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        indentOnInput(),
        indentUnit.of("  "),
        yaml(),
        syntaxHighlighting(colours),
        lintGutter(),
        changedLines,
        leaving,
        keymap.of([...defaultKeymap.filter((each) => each.key !== "Mod-Enter"), ...historyKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": description, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    focus: () => view.focus(),
    element: view.dom,
    text: () => view.state.doc.toString(),
    /** Another text: only what differs is replaced, so that the cursor stays; undo takes it back. */
    replace(next) {
      const now = view.state.doc.toString();
      if (now === next) return;
      let from = 0;
      const most = Math.min(now.length, next.length);
      while (from < most && now[from] === next[from]) from++;
      let tail = 0;
      while (tail < most - from && now[now.length - 1 - tail] === next[next.length - 1 - tail]) tail++;
      view.dispatch({
        changes: { from, to: now.length - tail, insert: next.slice(from, next.length - tail) },
        annotations: Transaction.userEvent.of("input.form"),
      });
    },
    goTo(line) {
      const at = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      const start = at.from + at.text.search(/\S|$/);
      view.dispatch({ selection: { anchor: start }, effects: EditorView.scrollIntoView(start, { y: "center" }) });
      view.focus();
    },
    /** `faults`: line, severity (error, warning), message. `lines`: that differ from the version before. */
    tell(faults, lines) {
      const { doc } = view.state;
      const found = faults.map(({ line, severity, message }) => {
        const at = doc.line(Math.min(Math.max(1, line), doc.lines));
        return { from: at.from + at.text.search(/\S|$/), to: at.to, severity, message };
      });
      view.dispatch(setDiagnostics(view.state, found));
      view.dispatch({ effects: setChanged.of(lines) });
    },
  };
}
