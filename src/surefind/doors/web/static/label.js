// Keys of the page for labelling: numbers mark passages, arrows move, y and n judge the passage in focus, Enter saves.
"use strict";
(() => {
  const form = document.querySelector("form.judge");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=relevant]")];
  const here = () => boxes.indexOf(document.activeElement);
  const focus = (at) => boxes[Math.min(Math.max(at, 0), boxes.length - 1)]?.focus();
  const count = form.querySelector("[data-marked]");
  const save = form.querySelector("button[data-save]");

  function show() {
    const marked = boxes.filter((box) => box.checked).length;
    if (count) count.textContent = marked ? `${marked} marked` : "";
    save.disabled = !marked && !form.querySelector("input[name=document]").value.trim();
    for (const box of boxes) box.closest(".passage").classList.toggle("marked", box.checked);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("textarea, select, input:not([type=checkbox])")) return;
    const key = event.key.toLowerCase();
    const number = key === "0" ? 10 : Number(key);
    if (number >= 1 && number <= boxes.length) {
      boxes[number - 1].checked = !boxes[number - 1].checked;
      focus(number - 1);
    } else if (key === "arrowdown" || key === "j") focus(here() + 1);
    else if (key === "arrowup" || key === "k") focus(here() - 1);
    else if ((key === "y" || key === "n") && here() >= 0) {
      boxes[here()].checked = key === "y";
      focus(here() + 1);
    } else if (key === "x") form.querySelector("button[name=none]").click();
    else if (key === "enter" && event.target.tagName !== "BUTTON" && event.target.tagName !== "A" && !save.disabled) save.click();
    else return;
    event.preventDefault();
    show();
  });
  form.addEventListener("input", show);
  show();
  focus(0);
})();
