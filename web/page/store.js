// The saved run, in IndexedDB: one record, written as a whole in one transaction, so that a tab that
// is closed at any moment leaves a complete one.

const NAME = 'elinvar', STORE = 'runs', KEY = 'digits';

function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function with_store(mode, work) {
  const db = await open();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = db.transaction(STORE, mode);
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    db.close();
  }
}

export const load = () => with_store('readonly', store => store.get(KEY));
export const save = record => with_store('readwrite', store => store.put(record, KEY));
export const forget = () => with_store('readwrite', store => store.delete(KEY));
